package pgguard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func (e *env) atLevel(t *testing.T, level pgx.TxIsoLevel) *pgguard.Guard {
	t.Helper()
	return e.guard(t, pgguard.WithTxOptions(pgx.TxOptions{IsoLevel: level}))
}

// TestG01_OlderWriterWaitsAndIsRefused: the newer one holds the mark.
func TestG01_OlderWriterWaitsAndIsRefused(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			e := newEnv(t)
			e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
			g := e.atLevel(t, level)
			older, newer := claim("auction/7", 33), claim("auction/7", 34)
			var waiting func() error
			require.NoError(t, g.InTx(t.Context(), newer, func(tx pgx.Tx) error {
				waiting = async(func() error {
					return g.InTx(t.Context(), older, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 120) })
				})
				e.blocked(t, 1)
				return bid(t.Context(), tx, 7, 130)
			}))
			requireRefused(t, waiting(), older, fence.ErrStale, 34)
			got, _ := e.row(t, 7)
			assert.EqualValues(t, 130, got)
			assert.EqualValues(t, 34, e.mark(t, "auction/7"))
		})
	}
}

// TestG01_NewerWriterSeesWhatItWaitedFor: what is read after the admission is up to date, at every
// isolation level - also when the older holder's mark was raised before and is only locked now, and
// when it writes rows that the newer one only reads.
func TestG01_NewerWriterSeesWhatItWaitedFor(t *testing.T) {
	for _, level := range levels {
		for name, sealed := range map[string]bool{"first write": false, "sealed before": true} {
			t.Run(string(level)+" "+name, func(t *testing.T) {
				e := newEnv(t)
				older, newer := claim("auction/7", 33), claim("auction/7", 34)
				if sealed {
					require.NoError(t, e.guard(t).Admit(t.Context(), older))
				}
				var waiting func() error
				seen := -1
				require.NoError(t, e.guard(t).InTx(t.Context(), older, func(tx pgx.Tx) error {
					waiting = async(func() error {
						return e.atLevel(t, level).InTx(t.Context(), newer, func(tx pgx.Tx) error {
							return tx.QueryRow(t.Context(), "SELECT count(*) FROM auctions").Scan(&seen)
						})
					})
					e.blocked(t, 1)
					_, err := tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 120)")
					return err
				}))
				require.NoError(t, waiting())
				assert.Equal(t, 1, seen, "the older holder's row")
			})
		}
	}
}

// TestC42_PausedBetweenCheckAndWrite: the value is never the older one's over the newer one's.
func TestC42_PausedBetweenCheckAndWrite(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t)
	older, newer := claim("auction/7", 33), claim("auction/7", 34)
	var waiting func() error
	require.NoError(t, g.InTx(t.Context(), older, func(tx pgx.Tx) error {
		waiting = async(func() error {
			return g.InTx(t.Context(), newer, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 130) })
		})
		e.blocked(t, 1) // the newer one waits while the older one is paused
		return bid(t.Context(), tx, 7, 120)
	}))
	require.NoError(t, waiting())
	got, _ := e.row(t, 7)
	assert.EqualValues(t, 130, got)
	requireRefused(t, g.InTx(t.Context(), older, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 120) }), older, fence.ErrStale, 34)
}

// TestG05_MarkOutlivesTheRow: who was shut out can't come back by way of a new row.
func TestG05_MarkOutlivesTheRow(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t)
	require.NoError(t, g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "DELETE FROM auctions WHERE id = 7")
		return err
	}))
	late := claim("auction/7", 33)
	requireRefused(t, g.InTx(t.Context(), late, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 120)")
		return err
	}), late, fence.ErrStale, 34)
	assert.Zero(t, e.number(t, "SELECT count(*) FROM auctions"))
}

// TestC40_InTx_EveryToken carries the greatest tokens exactly.
func TestC40_InTx_EveryToken(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	for _, token := range []fence.Token{2147483648, 9007199254740993, 9223372036854775806, 9223372036854775807} {
		c := claim("auction/7", token)
		require.NoError(t, g.InTx(t.Context(), c, func(pgx.Tx) error { return nil }))
		assert.Equal(t, token, e.mark(t, "auction/7"))
		requireRefused(t, g.Admit(t.Context(), claim2(c, token-1)), claim2(c, token-1), fence.ErrStale, token)
	}
}

func claim2(c fence.Claim, token fence.Token) fence.Claim {
	c.Token = token
	return c
}

// TestG03_FailedFunctionChangesNothing covers every way in which fn can fail.
func TestG03_FailedFunctionChangesNothing(t *testing.T) {
	boom := errors.New("boom")
	for name, fail := range map[string]func() error{
		"error":  func() error { return boom },
		"panic":  func() error { panic(boom) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
			g := e.guard(t)
			require.NoError(t, g.Admit(t.Context(), claim("auction/7", 33)))
			panicked, err := contain(func() error {
				return g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error {
					require.NoError(t, bid(t.Context(), tx, 7, 120))
					return fail()
				})
			})
			switch name {
			case "error":
				require.Same(t, boom, err, "as it is")
			case "panic":
				require.Equal(t, boom, panicked)
			}
			got, _ := e.row(t, 7)
			assert.EqualValues(t, 100, got)
			assert.EqualValues(t, 33, e.mark(t, "auction/7"))
			require.NoError(t, g.Admit(t.Context(), claim("auction/7", 34)), "the token is not used up, nor the mark locked")
			assert.Zero(t, e.Stat().AcquiredConns(), "the connection was given back")
		})
	}
}

// contain runs f in a goroutine of its own, which f may end.
func contain(f func() error) (panicked any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		err = f()
	}()
	<-done
	return panicked, err
}

// TestG03_SwallowedSQLErrorIsNoSuccess: PostgreSQL answers such a COMMIT with ROLLBACK.
func TestG03_SwallowedSQLErrorIsNoSuccess(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	err := g.InTx(t.Context(), claim("auction/7", 33), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 100)")
		require.NoError(t, err)
		_, _ = tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 100)")
		return nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
	assert.Zero(t, e.number(t, "SELECT count(*) FROM auctions"))
	assert.Zero(t, e.mark(t, "auction/7"))
}

// TestG03_SwallowedRefusalIsSticky: of the guard's own admission, and of a further one.
func TestG03_SwallowedRefusalIsSticky(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 34)")
	require.NoError(t, g.Admit(t.Context(), claim("auction/8", 34)))
	late := claim("auction/8", 33)
	requireRefused(t, g.InTx(t.Context(), late, func(pgx.Tx) error { t.Error("fn ran"); return nil }), late, fence.ErrStale, 34)

	err := g.InTx(t.Context(), claim("auction/9", 1), func(tx pgx.Tx) error {
		require.NoError(t, bid(t.Context(), tx, 7, 120))
		requireRefused(t, g.AdmitTx(t.Context(), tx, late), late, fence.ErrStale, 34)
		return nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)

	auction := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	lateRow := claim("auction/7", 33)
	for name, refused := range map[string]func(ctx context.Context) error{
		"Admit": func(ctx context.Context) error { return g.Admit(ctx, late) },
		"AdmitTx": func(ctx context.Context) error {
			tx, _ := pgguard.TxFrom(ctx)
			return g.AdmitTx(ctx, tx, late)
		},
		"nested InTx":  func(ctx context.Context) error { return g.InTx(ctx, late, func(pgx.Tx) error { return nil }) },
		"Table.Update": func(ctx context.Context) error { return auction.Update(ctx, lateRow, 7, pgguard.Set{"bid": 1}) },
	} {
		err = g.Do(t.Context(), claim("auction/9", 1), func(ctx context.Context) error {
			tx, ok := pgguard.TxFrom(ctx)
			require.True(t, ok)
			require.NoError(t, bid(ctx, tx, 7, 120))
			require.ErrorIs(t, refused(ctx), fence.ErrStale)
			return nil
		})
		var rejected *fence.RejectedError
		require.ErrorAs(t, err, &rejected, name)
		assert.EqualValues(t, 34, rejected.Mark, name)
	}
	got, _ := e.row(t, 7)
	assert.EqualValues(t, 100, got)
	assert.Zero(t, e.mark(t, "auction/9"))

	// A savepoint of the caller's own is its own decision.
	require.NoError(t, g.Do(t.Context(), claim("auction/9", 1), func(ctx context.Context) error {
		tx, _ := pgguard.TxFrom(ctx)
		savepoint, err := tx.Begin(ctx)
		require.NoError(t, err)
		requireRefused(t, g.AdmitTx(ctx, savepoint, late), late, fence.ErrStale, 34)
		return savepoint.Rollback(ctx)
	}))
}

// TestG03_FailedInnerFunctionIsUndone: it is a savepoint, so the outer one may go on without it.
func TestG03_FailedInnerFunctionIsUndone(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100), (8, 100)")
	g := e.guard(t)
	boom := errors.New("boom")
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 33), func(ctx context.Context) error {
		require.NoError(t, g.InTx(ctx, claim("auction/7", 34), func(tx pgx.Tx) error { return bid(ctx, tx, 7, 120) }), "the same resource")
		require.ErrorIs(t, g.InTx(ctx, claim("auction/8", 33), func(tx pgx.Tx) error {
			require.NoError(t, bid(ctx, tx, 8, 120))
			return boom
		}), boom)
		require.PanicsWithValue(t, boom, func() {
			_ = g.Do(ctx, claim("auction/8", 33), func(context.Context) error { panic(boom) })
		})
		return nil
	}))
	seven, _ := e.row(t, 7)
	eight, _ := e.row(t, 8)
	assert.EqualValues(t, 120, seven)
	assert.EqualValues(t, 100, eight)
	assert.EqualValues(t, 34, e.mark(t, "auction/7"))
	assert.Zero(t, e.mark(t, "auction/8"))
}

// TestDo_ContextIsOverWithIt: what a goroutine of fn's does with it afterwards is an error, not a write
// outside the fence.
func TestDo_ContextIsOverWithIt(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	g := e.guard(t)
	var kept context.Context
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 33), func(ctx context.Context) error {
		kept = ctx
		return nil
	}))
	for call, err := range map[string]error{
		"Admit": g.Admit(kept, claim("auction/7", 34)),
		"InTx":  g.InTx(kept, claim("auction/7", 34), nothing),
		"Table": g.Table(once).Update(kept, claim("auction/7", 34), 7, nil),
	} {
		require.ErrorIs(t, err, pgx.ErrTxClosed, call)
		require.NotErrorIs(t, err, fence.ErrUnavailable, call)
	}
	assert.EqualValues(t, 33, e.mark(t, "auction/7"))

	// Another database is another matter.
	other := newGuard(t, connectPool(t, e.url))
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 34), func(ctx context.Context) error {
		return other.Admit(ctx, claim("auction/8", 1))
	}))
}

// TestC39_SeveralRowsAllOrNothing: one stale row among them.
func TestC39_SeveralRowsAllOrNothing(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "INSERT INTO auctions VALUES (1, 100, 10), (2, 100, 50), (3, 100, NULL)")
	auction := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	batch := func(token fence.Token) error {
		return g.Do(t.Context(), claim("batch", token), func(ctx context.Context) error {
			for id, resource := range map[int]string{1: "auction/1", 2: "auction/2", 3: "auction/3"} {
				if err := auction.Update(ctx, claim(resource, token), id, pgguard.Set{"bid": int(token)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.ErrorIs(t, batch(40), fence.ErrStale)
	assert.EqualValues(t, 300, e.number(t, "SELECT sum(bid) FROM auctions"))
	assert.EqualValues(t, 60, e.number(t, "SELECT sum(fence) FROM auctions"))
	assert.Zero(t, e.mark(t, "batch"))
	require.NoError(t, batch(60))
	assert.EqualValues(t, 180, e.number(t, "SELECT sum(bid) FROM auctions"))
}

// TestC45_ConflictOnTheDataIsRetryable: fn's serialization failure is no verdict, and comes back as it
// is, marked as worth a retry.
func TestC45_ConflictOnTheDataIsRetryable(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	c := claim("auction/7", 33)
	err := e.atLevel(t, pgx.RepeatableRead).InTx(t.Context(), c, func(tx pgx.Tx) error {
		e.exec(t, "UPDATE auctions SET bid = 110") // by someone outside the fence
		return bid(t.Context(), tx, 7, 120)
	})
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "40001", pgErr.Code)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrStale)
	assert.Zero(t, e.mark(t, "auction/7"))
}

// TestC45_ConflictAtCommitIsRetryable: SERIALIZABLE may find out as late as that.
func TestC45_ConflictAtCommitIsRetryable(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (1, 1), (2, 1)")
	g := e.atLevel(t, pgx.Serializable)
	err := g.InTx(t.Context(), claim("auction/1", 33), func(tx pgx.Tx) error {
		require.NoError(t, sumInto(t.Context(), tx, 1))
		return g.InTx(t.Context(), claim("auction/2", 33), func(other pgx.Tx) error {
			require.NoError(t, sumInto(t.Context(), other, 2))
			return nil
		})
	})
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "40001", pgErr.Code)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, "it is certain that it did not commit")
	assert.Zero(t, e.mark(t, "auction/1"))
	assert.EqualValues(t, 33, e.mark(t, "auction/2"))
}

func sumInto(ctx context.Context, tx pgx.Tx, id int) error {
	_, err := tx.Exec(ctx, "UPDATE auctions SET bid = (SELECT sum(bid) FROM auctions) WHERE id = $1", id)
	return err
}

// TestInTx_ErrorAtCommit: a deferred constraint speaks as late as that, and definitively.
func TestInTx_ErrorAtCommit(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "CREATE TABLE seats (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	err := e.guard(t).InTx(t.Context(), claim("seats", 33), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO seats VALUES (1), (1)")
		return err
	})
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "23505", pgErr.Code)
	for _, other := range []error{fence.ErrOutcomeUnknown, fence.ErrUnavailable} {
		require.NotErrorIs(t, err, other)
	}
	assert.Zero(t, e.mark(t, "seats"))
}

// TestInTx_MisuseIsAnError: of the transaction by fn.
func TestInTx_MisuseIsAnError(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t)
	for name, row := range map[string]struct {
		misuse func(tx pgx.Tx) error
		says   string
	}{
		"commit":   {func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, "ended the transaction"},
		"rollback": {func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, "ended the transaction"},
		"open rows": {func(tx pgx.Tx) error {
			_, err := tx.Query(t.Context(), "SELECT * FROM auctions")
			return err
		}, "open"},
	} {
		err := g.InTx(t.Context(), claim("misuse "+name, 33), row.misuse)
		require.ErrorContains(t, err, row.says, name)
		require.NotErrorIs(t, err, fence.ErrUnavailable, "%s: a retry doesn't help", name)
	}
	assert.Zero(t, e.mark(t, "misuse rollback"))
	assert.Zero(t, e.mark(t, "misuse open rows"))
}

// TestInTx_ContextEndsInFunction: there is no COMMIT after it, and the rollback is sent all the same.
func TestInTx_ContextEndsInFunction(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t)
	for name, fn := range map[string]func(ctx context.Context, tx pgx.Tx, cancel func()) error{
		"unnoticed": func(ctx context.Context, tx pgx.Tx, cancel func()) error {
			defer cancel()
			return bid(ctx, tx, 7, 120)
		},
		"in a statement": func(ctx context.Context, tx pgx.Tx, cancel func()) error {
			cancel()
			return bid(ctx, tx, 7, 120)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := g.InTx(ctx, claim("auction/7", 33), func(tx pgx.Tx) error { return fn(ctx, tx, cancel) })
		require.ErrorIs(t, err, context.Canceled, name)
		require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, name)
		assert.Zero(t, e.mark(t, "auction/7"), name)
		require.NoError(t, g.Admit(t.Context(), claim("free", 1+e.mark(t, "free"))))
	}
	got, _ := e.row(t, 7)
	assert.EqualValues(t, 100, got)
}

// TestG10_HoldTimeoutFreesTheResource: the holder is paused inside fn, the server ends its transaction.
func TestG10_HoldTimeoutFreesTheResource(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t, pgguard.WithHoldTimeout(50*time.Millisecond))
	for name, afterwards := range map[string]func(tx pgx.Tx) error{
		"commit": func(pgx.Tx) error { return nil },
		"write":  func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 130) },
	} {
		older, newer := claim("auction/"+name, 33), claim("auction/"+name, 34)
		err := g.InTx(t.Context(), older, func(tx pgx.Tx) error {
			require.NoError(t, bid(t.Context(), tx, 7, 120))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, e.guard(t).Admit(ctx, newer), "it waited no longer than the timeout")
			return afterwards(tx)
		})
		require.ErrorIs(t, err, fence.ErrUnavailable, name)
		require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, name)
		assert.EqualValues(t, 34, e.mark(t, newer.Resource))
	}
	got, _ := e.row(t, 7)
	assert.EqualValues(t, 100, got)
}

// TestHoldTimeout_IsLocal: the connection goes back to the pool as it came.
func TestHoldTimeout_IsLocal(t *testing.T) {
	e := newEnv(t)
	conn, err := e.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	show := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) (setting string) {
		const sql = "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
		require.NoError(t, q.QueryRow(t.Context(), sql).Scan(&setting))
		return setting
	}
	for d, want := range map[time.Duration]string{30 * time.Second: "30000", 1500*time.Millisecond + 1: "1501"} {
		before := show(conn)
		g := newGuard(t, conn, pgguard.WithHoldTimeout(d))
		require.NoError(t, g.InTx(t.Context(), claim("auction/7", 1+e.mark(t, "auction/7")), func(tx pgx.Tx) error {
			assert.Equal(t, want, show(tx), "rounded up")
			return nil
		}))
		assert.Equal(t, before, show(conn))
	}
}

// TestC44_VerdictIsOneAttempt counts the transactions that the server sees.
func TestC44_VerdictIsOneAttempt(t *testing.T) {
	for _, level := range levels {
		e := newEnv(t)
		require.NoError(t, e.guard(t).Admit(t.Context(), claim("auction/7", 34)))
		count := &counting{DB: e.Pool}
		g := newGuard(t, count, pgguard.WithTxOptions(pgx.TxOptions{IsoLevel: level}))
		late := claim("auction/7", 33)
		requireRefused(t, g.InTx(t.Context(), late, nothing), late, fence.ErrStale, 34)
		requireRefused(t, g.Do(t.Context(), late, func(context.Context) error { return nil }), late, fence.ErrStale, 34)
		requireRefused(t, g.Admit(t.Context(), late), late, fence.ErrStale, 34)
		assert.EqualValues(t, 3, count.calls.Load())
	}
}

func nothing(pgx.Tx) error { return nil }

// TestInTx_ManyAtOnce: conflicts of one holder's own transactions resolve themselves.
func TestInTx_ManyAtOnce(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		e := newEnv(t)
		e.exec(t, "INSERT INTO auctions VALUES (7)")
		g := e.atLevel(t, level)
		c := claim("auction/7", 33)
		var waits []func() error
		for range 8 {
			waits = append(waits, async(func() error {
				for range 10 {
					err := g.InTx(t.Context(), c, func(tx pgx.Tx) error {
						_, err := tx.Exec(t.Context(), "UPDATE auctions SET bid = bid + 1 WHERE id = 7")
						return err
					})
					if err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, wait := range waits {
			require.NoError(t, wait())
		}
		got, _ := e.row(t, 7)
		assert.EqualValues(t, 80, got)
	}
}
