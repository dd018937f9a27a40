package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

func TestWait_IsBounded(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			holder := newGuard(t, f.open(t))
			db := f.open(t)
			require.NoError(t, holder.InTx(t.Context(), claim("auction/7", 33), func(*sql.Tx) error {
				brief := newGuard(t, db, sqlguard.WithBusyTimeout(20*time.Millisecond))
				err := brief.Admit(t.Context(), claim("auction/7", 34))
				require.ErrorIs(t, err, fence.ErrUnavailable)
				require.NotErrorIs(t, err, context.DeadlineExceeded)

				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				began := time.Now()
				err = newGuard(t, db, sqlguard.WithBusyTimeout(time.Hour)).Admit(ctx, claim("auction/7", 34))
				require.ErrorIs(t, err, fence.ErrUnavailable)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Less(t, time.Since(began), time.Minute)
				return nil
			}))
			assert.EqualValues(t, 33, mark(t, db, "auction/7"))
		})
	}
}

// A connection is given back with the busy timeout that it came with; within the transaction it is the
// guard's, or the connection's own if it has one.
func TestBusyTimeout_IsPutBack(t *testing.T) {
	for _, row := range []struct {
		name, dsn string
		opts      []sqlguard.Option
		during    int
		after     int
	}{
		{"default", "", nil, 5000, 0},
		{"the connection's own", "?_pragma=busy_timeout(700)", nil, 700, 700},
		{"told", "?_pragma=busy_timeout(700)", []sqlguard.Option{sqlguard.WithBusyTimeout(1500 * time.Microsecond)}, 2, 700},
		{"told not to wait", "?_pragma=busy_timeout(700)", []sqlguard.Option{sqlguard.WithBusyTimeout(0)}, 0, 700},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, err := sql.Open("sqlite", "file:"+newFile(t, "wal").path+row.dsn)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			db.SetMaxOpenConns(1)
			g := newGuard(t, db, row.opts...)
			for i, outcome := range []error{nil, errors.New("failed")} {
				err := g.InTx(t.Context(), claim("auction/7", fence.Token(i+1)), func(tx *sql.Tx) error {
					var during int
					require.NoError(t, tx.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&during))
					assert.Equal(t, row.during, during)
					return outcome
				})
				require.Equal(t, outcome, err)
			}
			assert.Equal(t, row.after, one[int](t, db, "PRAGMA busy_timeout"))
		})
	}
}

// AdmitTx after a read: another writer may have come in between, and then nothing but a new transaction
// helps. It must not pass for a verdict.
func TestAdmitTx_AfterARead(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			db, other := f.open(t), newGuard(t, f.open(t), sqlguard.WithBusyTimeout(0))
			g := newGuard(t, db, sqlguard.WithBusyTimeout(0))
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM fence_marks").Scan(new(int)))
			overtaken := other.Admit(t.Context(), claim("auction/7", 34))
			err = g.AdmitTx(t.Context(), tx, claim("auction/7", 33))
			if journal == "wal" {
				require.NoError(t, overtaken)
				require.ErrorIs(t, err, fence.ErrUnavailable, "SQLITE_BUSY_SNAPSHOT")
				return
			}
			require.ErrorIs(t, overtaken, fence.ErrUnavailable, "the reader keeps the COMMIT out")
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
		})
	}
}

func TestAdmitTx_CommitsWithTheCallersTransaction(t *testing.T) {
	db := newDB(t, dataSQL)
	g := newGuard(t, db)
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, g.AdmitTx(t.Context(), tx, claim("auction/7", 34)))
		_, err = tx.ExecContext(t.Context(), "INSERT INTO data VALUES ('auction/7', 1)")
		require.NoError(t, err)
		if commit {
			require.NoError(t, tx.Commit())
			break
		}
		require.NoError(t, tx.Rollback())
		assert.Zero(t, mark(t, db, "auction/7"))
	}
	assert.EqualValues(t, 34, mark(t, db, "auction/7"))
}

// A nested call that fails takes back its own part; the rest goes on if the function wants it to.
func TestG09_NestedFailureIsASavepoint(t *testing.T) {
	db := newDB(t, dataSQL)
	g, store, failed := newGuard(t, db), data{db}, errors.New("failed")
	require.NoError(t, g.Do(t.Context(), claim("outer", 1), func(ctx context.Context) error {
		require.NoError(t, store.Write(ctx, "outer", 1))
		err := g.Do(ctx, claim("inner", 1), func(ctx context.Context) error {
			require.NoError(t, store.Write(ctx, "inner", 1))
			return failed
		})
		require.ErrorIs(t, err, failed)
		assert.PanicsWithValue(t, "boom", func() {
			_ = g.InTx(ctx, claim("inner", 1), func(*sql.Tx) error {
				require.NoError(t, store.Write(ctx, "inner", 2))
				panic("boom")
			})
		})
		return g.InTx(ctx, claim("second", 1), func(tx *sql.Tx) error {
			outer, ok := sqlguard.TxFrom(ctx)
			assert.True(t, ok && outer == tx, "one transaction")
			return store.Write(ctx, "second", 1)
		})
	}))
	assert.Equal(t, "outer,second", one[string](t, db, "SELECT group_concat(resource) FROM data"))
	assert.Zero(t, mark(t, db, "inner"))
	assert.EqualValues(t, 1, mark(t, db, "second"))
}

// Each call joins the transaction of its own database, whichever was begun last.
func TestG09_TwoDatabases(t *testing.T) {
	a, b := newDB(t), newDB(t)
	ga, gb := newGuard(t, a), newGuard(t, b)
	require.NoError(t, ga.Do(t.Context(), claim("r", 1), func(ctx context.Context) error {
		return gb.Do(ctx, claim("r", 1), func(ctx context.Context) error {
			return errors.Join(ga.Admit(ctx, claim("r", 2)), gb.Admit(ctx, claim("r", 3)), newGuard(t, a).Admit(ctx, claim("s", 1)))
		})
	}))
	assert.EqualValues(t, 2, mark(t, a, "r"))
	assert.EqualValues(t, 1, mark(t, a, "s"))
	assert.EqualValues(t, 3, mark(t, b, "r"))
}

func TestDo_ContextOfAnEndedFunction(t *testing.T) {
	db := newDB(t)
	g := newGuard(t, db)
	var kept context.Context
	require.NoError(t, g.Do(t.Context(), claim("r", 1), func(ctx context.Context) error {
		kept = ctx
		return nil
	}))
	err := g.Admit(kept, claim("r", 2))
	require.ErrorIs(t, err, sql.ErrTxDone)
	assert.EqualValues(t, 1, mark(t, db, "r"))
}

func TestTxFrom_OutsideOfDo(t *testing.T) {
	tx, ok := sqlguard.TxFrom(t.Context())
	assert.False(t, ok)
	assert.Nil(t, tx)
}

// A pool of one connection is what a database in memory needs.
func TestOneConnection(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	require.NoError(t, sqlguard.Migrate(t.Context(), db, sqlguard.SQLite))
	exec(t, db, auctionsSQL)
	g := newGuard(t, db)
	auctions := g.Table(once)
	require.NoError(t, auctions.Upsert(t.Context(), claim("auction/7", 1), 7, nil))
	c := claim("r", 1)
	require.NoError(t, g.Do(t.Context(), c, func(ctx context.Context) error {
		return errors.Join(auctions.Update(ctx, claim("auction/7", 2), 7, nil), g.Admit(ctx, c))
	}))
	rejected(t, g.Admit(t.Context(), claim("r", 1)), fence.ErrDuplicate, 1)
}

// The mark's holder is the key to a live lease.
func TestErrors_DoNotShowTheHolder(t *testing.T) {
	db := newDB(t)
	g, holder := newGuard(t, db), claim("r", 34)
	require.NoError(t, g.Admit(t.Context(), holder))
	other := claim("r", 34)
	err := g.Admit(t.Context(), other)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), holder.Holder.String())
	assert.NotContains(t, err.Error(), other.Holder.String())

	const broken = "not-a-uuid-but-36-characters-long-xx"
	exec(t, db, "UPDATE fence_marks SET holder = ?", broken)
	err = g.Admit(t.Context(), other)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), broken)
}
