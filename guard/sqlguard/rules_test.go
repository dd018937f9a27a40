package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

const auctionsSQL = `CREATE TABLE auctions (id INTEGER PRIMARY KEY, bid INTEGER NOT NULL DEFAULT 0, fence INTEGER, fence_holder TEXT)`

var (
	once = sqlguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"}
	full = sqlguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence", Holder: "fence_holder"}
)

// Two processes, one file: the later token comes while the earlier one is between its check and its
// write. It waits, then sees what was written; the earlier one is refused from then on.
func TestG01_CheckAndWriteAreOneTransaction(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			dbA, dbB := f.open(t), f.open(t)
			exec(t, dbA, auctionsSQL)
			exec(t, dbA, "INSERT INTO auctions (id, bid) VALUES (7, 100)")
			a, b := newGuard(t, dbA), newGuard(t, dbB)
			earlier, later := claim("auction/7", 33), claim("auction/7", 34)

			inside, resume, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			go func() {
				outcome <- a.InTx(t.Context(), earlier, func(tx *sql.Tx) error {
					close(inside)
					<-resume
					_, err := tx.ExecContext(t.Context(), "UPDATE auctions SET bid = 120 WHERE id = 7")
					return err
				})
			}()
			<-inside
			var read int
			go func() {
				outcome <- b.InTx(t.Context(), later, func(tx *sql.Tx) error {
					return tx.QueryRowContext(t.Context(), "SELECT bid FROM auctions WHERE id = 7").Scan(&read)
				})
			}()
			close(resume)
			require.NoError(t, errors.Join(<-outcome, <-outcome))
			assert.Equal(t, 120, read, "what is read after the admission is what was committed before it")
			rejected(t, a.InTx(t.Context(), earlier, func(*sql.Tx) error {
				assert.Fail(t, "ran under a stale claim")
				return nil
			}), fence.ErrStale, 34)
		})
	}
}

// A claim is admitted by the transaction's first statement, which takes the write lock: another handle
// can't write, for another resource either, before the transaction has ended.
func TestG01_AdmissionTakesTheWriteLock(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			a, b := newGuard(t, f.open(t)), newGuard(t, f.open(t), sqlguard.WithBusyTimeout(0))
			require.NoError(t, a.Admit(t.Context(), claim("auction/7", 34)))
			for _, inTx := range []fence.Claim{claim("auction/7", 35), claim("auction/9", 1)} {
				require.NoError(t, a.InTx(t.Context(), inTx, func(*sql.Tx) error {
					err := b.Admit(t.Context(), claim("auction/8", 1))
					assert.ErrorIs(t, err, fence.ErrUnavailable)
					var busy interface{ Code() int }
					assert.ErrorAs(t, err, &busy, "the driver's error is in the chain")
					return nil
				}))
			}
			require.NoError(t, b.Admit(t.Context(), claim("auction/8", 1)))
		})
	}
}

func TestG02_ZeroRowsIsExplained(t *testing.T) {
	db := newDB(t, auctionsSQL)
	exec(t, db, "INSERT INTO auctions (id) VALUES (7), (8)")
	g := newGuard(t, db)
	for name, table := range map[string]*sqlguard.TableGuard{"once": g.Table(once), "full": g.Table(full)} {
		for verb, write := range map[string]func(context.Context, fence.Claim, any, sqlguard.Set) error{"Update": table.Update, "Upsert": table.Upsert} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				exec(t, db, "UPDATE auctions SET fence = 34, fence_holder = ? WHERE id = 7", uuid.NewString())
				set := sqlguard.Set{"bid": 1}
				rejected(t, write(t.Context(), claim("auction/7", 33), 7, set), fence.ErrStale, 34)
				duplicate := fence.ErrReplayed // what the once rule calls it: it knows no holders
				if name == "full" {
					duplicate = fence.ErrDuplicate
				}
				rejected(t, write(t.Context(), claim("auction/7", 34), 7, set), duplicate, 34)
				rejected(t, write(t.Context(), fence.Claim{Resource: "auction/7", Token: 34}, 7, set), fence.ErrReplayed, 34)
				if verb == "Update" {
					require.ErrorIs(t, write(t.Context(), claim("auction/9", 34), 9, set), fence.ErrNotFound)
				}
			})
		}
	}
	assert.Zero(t, one[int](t, db, "SELECT sum(bid) FROM auctions"))
}

func TestG03_FailedFunctionLeavesTheMark(t *testing.T) {
	db := newDB(t, dataSQL)
	g := newGuard(t, db)
	require.NoError(t, g.Admit(t.Context(), claim("auction/7", 33)))
	failed := errors.New("failed")
	for _, resource := range []string{"auction/7", "auction/8"} {
		err := g.InTx(t.Context(), claim(resource, 34), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO data VALUES (?, 1)", resource)
			return errors.Join(err, failed)
		})
		require.ErrorIs(t, err, failed)
	}
	assert.EqualValues(t, 33, mark(t, db, "auction/7"))
	assert.Zero(t, mark(t, db, "auction/8"))
	assert.Zero(t, one[int](t, db, "SELECT count(*) FROM data"))
}

// A refusal within a transaction can't be swallowed, whichever way it came about.
func TestG03_RefusalWithinATransactionIsSticky(t *testing.T) {
	db := newDB(t, dataSQL, auctionsSQL)
	exec(t, db, "INSERT INTO auctions (id, fence) VALUES (7, 34)")
	g := newGuard(t, db)
	require.NoError(t, g.Admit(t.Context(), claim("other", 34)))
	stale := claim("other", 33)
	for name, refused := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"Admit":   func(ctx context.Context, _ *sql.Tx) error { return g.Admit(ctx, stale) },
		"AdmitTx": func(ctx context.Context, tx *sql.Tx) error { return g.AdmitTx(ctx, tx, stale) },
		"InTx": func(ctx context.Context, _ *sql.Tx) error {
			return g.InTx(ctx, stale, func(*sql.Tx) error { return nil })
		},
		"Do": func(ctx context.Context, _ *sql.Tx) error {
			return g.Do(ctx, stale, func(context.Context) error { return nil })
		},
		"Update": func(ctx context.Context, _ *sql.Tx) error {
			return g.Table(once).Update(ctx, claim("auction/7", 33), 7, sqlguard.Set{"bid": 1})
		},
		"Upsert": func(ctx context.Context, _ *sql.Tx) error {
			return g.Table(once).Upsert(ctx, claim("auction/7", 33), 7, sqlguard.Set{"bid": 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var swallowed error
			err := g.Do(t.Context(), claim("auction/1", 1), func(ctx context.Context) error {
				tx, ok := sqlguard.TxFrom(ctx)
				require.True(t, ok)
				require.NoError(t, data{db}.Write(ctx, "auction/1", 1))
				swallowed = refused(ctx, tx)
				return nil
			})
			rejected(t, swallowed, fence.ErrStale, 34)
			rejected(t, err, fence.ErrStale, 34)
			assert.Zero(t, mark(t, db, "auction/1"))
			assert.Zero(t, one[int](t, db, "SELECT count(*) FROM data"))
		})
	}
}

func TestG03_RefusedAdmitTxEndsTheTransaction(t *testing.T) {
	db := newDB(t, dataSQL)
	g := newGuard(t, db)
	require.NoError(t, g.Admit(t.Context(), claim("auction/7", 34)))
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	rejected(t, g.AdmitTx(t.Context(), tx, claim("auction/7", 33)), fence.ErrStale, 34)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO data VALUES ('auction/7', 1)")
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
	assert.Zero(t, one[int](t, db, "SELECT count(*) FROM data"))
}

func TestG05_MarkOutlivesTheRow(t *testing.T) {
	db := newDB(t, dataSQL)
	g := newGuard(t, db)
	require.NoError(t, g.InTx(t.Context(), claim("auction/7", 34), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM data WHERE resource = 'auction/7'")
		return err
	}))
	rejected(t, g.InTx(t.Context(), claim("auction/7", 33), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO data VALUES ('auction/7', 1)")
		return err
	}), fence.ErrStale, 34)
}

func TestC38_G06_NullFenceIsZero(t *testing.T) {
	for name, table := range map[string]sqlguard.Table{"once": once, "full": full} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t, auctionsSQL)
			exec(t, db, "INSERT INTO auctions (id) VALUES (7)")
			auctions := newGuard(t, db).Table(table)
			require.ErrorIs(t, auctions.Update(t.Context(), claim("auction/7", 0), 7, sqlguard.Set{"bid": 120}), fence.ErrInvalid)
			assert.Zero(t, one[int](t, db, "SELECT bid FROM auctions"))
			require.NoError(t, auctions.Update(t.Context(), claim("auction/7", 1), 7, sqlguard.Set{"bid": 120}))
			assert.Equal(t, 1, one[int](t, db, "SELECT fence FROM auctions WHERE bid = 120"))
		})
	}
}

func TestC39_MissingIsNotStale(t *testing.T) {
	db := newDB(t, auctionsSQL)
	exec(t, db, "INSERT INTO auctions (id, fence) VALUES (7, 34)")
	auctions := newGuard(t, db).Table(full)
	for _, err := range []error{
		auctions.Update(t.Context(), claim("auction/8", 33), 8, sqlguard.Set{"bid": 1}),
		auctions.Admit(t.Context(), claim("auction/8", 33)),
	} {
		require.ErrorIs(t, err, fence.ErrNotFound)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	rejected(t, auctions.Update(t.Context(), claim("auction/7", 33), 7, sqlguard.Set{"bid": 1}), fence.ErrStale, 34)
	assert.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM auctions"))
}

// Several rows in one transaction, one of them stale: nothing is written.
func TestC39_SeveralRowsAllOrNothing(t *testing.T) {
	db := newDB(t, auctionsSQL)
	exec(t, db, "INSERT INTO auctions (id, fence) VALUES (7, 1), (8, 34)")
	g := newGuard(t, db)
	auctions := g.Table(once)
	err := g.Do(t.Context(), claim("auctions", 1), func(ctx context.Context) error {
		require.NoError(t, auctions.Update(ctx, claim("auction/7", 33), 7, sqlguard.Set{"bid": 120}))
		return auctions.Update(ctx, claim("auction/8", 33), 8, sqlguard.Set{"bid": 120})
	})
	rejected(t, err, fence.ErrStale, 34)
	assert.Zero(t, one[int](t, db, "SELECT sum(bid) FROM auctions"))
	assert.Equal(t, 1, one[int](t, db, "SELECT fence FROM auctions WHERE id = 7"))
}

func TestC40_G06_FullRangeOfTokens(t *testing.T) {
	db := newDB(t, auctionsSQL)
	exec(t, db, "INSERT INTO auctions (id) VALUES (7)")
	g := newGuard(t, db)
	auctions := g.Table(once)
	for _, token := range []fence.Token{1<<31 - 1, 1 << 31, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		require.NoError(t, g.Admit(t.Context(), claim("seat/A12", token)))
		assert.Equal(t, token, mark(t, db, "seat/A12"))
		require.NoError(t, auctions.Update(t.Context(), claim("auction/7", token), 7, nil))
		assert.Equal(t, int64(token), one[int64](t, db, "SELECT fence FROM auctions WHERE typeof(fence) = 'integer'"))
	}
	rejected(t, auctions.Update(t.Context(), claim("auction/7", math.MaxInt64-1), 7, nil), fence.ErrStale, math.MaxInt64)
}

// A(33) is paused between the claim and its write; B(34) comes and goes meanwhile. Under the once rule
// the condition is in the write itself.
func TestC42_LateWriteNeverLandsOnANewerOne(t *testing.T) {
	for _, journal := range journals {
		for name, table := range map[string]sqlguard.Table{"once": once, "full": full} {
			t.Run(journal+"/"+name, func(t *testing.T) {
				f := newFile(t, journal)
				a, b := f.open(t), f.open(t)
				exec(t, a, auctionsSQL)
				exec(t, a, "INSERT INTO auctions (id) VALUES (7)")
				paused, newer := claim("auction/7", 33), claim("auction/7", 34)
				tableA, tableB := newGuard(t, a).Table(table), newGuard(t, b).Table(table)
				if table.Holder != "" {
					require.NoError(t, tableA.Admit(t.Context(), paused))
				}
				require.NoError(t, tableB.Update(t.Context(), newer, 7, sqlguard.Set{"bid": 130}))
				rejected(t, tableA.Update(t.Context(), paused, 7, sqlguard.Set{"bid": 120}), fence.ErrStale, 34)
				assert.Equal(t, 130, one[int](t, a, "SELECT bid FROM auctions"))
			})
		}
	}
}

// Many writers through two handles: the last value is the newest token's, and writers that were
// overtaken know it.
func TestC42_ConcurrentWriters(t *testing.T) {
	const writers, each = 4, 15
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			handles := []*sql.DB{f.open(t), f.open(t)}
			exec(t, handles[0], auctionsSQL)
			exec(t, handles[0], "INSERT INTO auctions (id) VALUES (7)")
			var tables []*sqlguard.TableGuard
			for _, db := range handles {
				tables = append(tables, newGuard(t, db).Table(once))
			}
			written := make(chan int, writers*each)
			done := make(chan error, writers)
			for w := range writers {
				go func() {
					var unexpected error
					for i := range each {
						token := i*writers + w + 1
						err := tables[w%2].Update(t.Context(), claim("auction/7", fence.Token(token)), 7, sqlguard.Set{"bid": token})
						switch {
						case err == nil:
							written <- token
						case !errors.Is(err, fence.ErrStale):
							unexpected = errors.Join(unexpected, err)
						}
					}
					done <- unexpected
				}()
			}
			for range writers {
				require.NoError(t, <-done)
			}
			close(written)
			newest := 0
			for token := range written {
				newest = max(newest, token)
			}
			assert.Equal(t, writers*each, newest, "the greatest token is always admitted")
			assert.Equal(t, newest, one[int](t, handles[1], "SELECT bid FROM auctions WHERE bid = fence"))
		})
	}
}
