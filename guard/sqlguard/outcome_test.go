package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

// What the answer to a COMMIT says is what the caller is told, and the COMMIT is sent once.
func TestG04_OutcomeOfACommit(t *testing.T) {
	const busy, ioErr, full, constraint, extended = coded(5), coded(10), coded(13), coded(19), coded(5 | 2<<8)
	none := errors.New("no sentinel")
	for _, row := range []struct {
		name   string
		answer error
		lost   bool // it took effect all the same
		want   error
	}{
		{"busy", busy, false, fence.ErrUnavailable},
		{"busy, extended", extended, false, fence.ErrUnavailable},
		{"busy, by its text", errors.New("database is locked"), false, fence.ErrUnavailable},
		{"full", full, false, fence.ErrUnavailable},
		{"deferred constraint", constraint, false, none},
		{"failing disk", ioErr, false, fence.ErrOutcomeUnknown},
		{"failing disk, after all", ioErr, true, fence.ErrOutcomeUnknown},
		{"connection", driver.ErrBadConn, false, fence.ErrOutcomeUnknown},
		{"connection, after all", driver.ErrBadConn, true, fence.ErrOutcomeUnknown},
		{"context", context.Canceled, true, fence.ErrOutcomeUnknown},
		{"anything", errors.New("anything"), true, fence.ErrOutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFile(t, "wal")
			faults := &faulty{dsn: "file:" + f.path}
			db := faults.open(t)
			exec(t, db, "CREATE TABLE counter (n INTEGER)")
			exec(t, db, "INSERT INTO counter VALUES (0)")
			faults.commit = func(commit func() error) error {
				if row.lost {
					require.NoError(t, commit())
				}
				return row.answer
			}
			err := newGuard(t, db).InTx(t.Context(), claim("counter", 34), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE counter SET n = n + 1")
				return err
			})
			require.ErrorIs(t, err, row.answer)
			for _, sentinel := range []error{fence.ErrUnavailable, fence.ErrOutcomeUnknown} {
				assert.Equal(t, sentinel == row.want, errors.Is(err, sentinel), "%v: %v", sentinel, err)
			}
			assert.Equal(t, 1, faults.counts.commits)
			if row.lost {
				reader := f.open(t)
				assert.Equal(t, 1, one[int](t, reader, "SELECT n FROM counter"))
				assert.EqualValues(t, 34, mark(t, reader, "counter"))
			}
		})
	}
}

func TestBegin_ThatFailsIsUnavailable(t *testing.T) {
	for _, answer := range []error{coded(5), errors.New("anything"), driver.ErrBadConn} {
		faults := &faulty{dsn: "file:" + newFile(t, "wal").path, begin: answer}
		err := newGuard(t, faults.open(t)).InTx(t.Context(), claim("r", 1), func(*sql.Tx) error {
			assert.Fail(t, "ran")
			return nil
		})
		require.ErrorIs(t, err, fence.ErrUnavailable)
		require.ErrorIs(t, err, answer)
	}
}

func TestClosedDatabaseIsUnavailable(t *testing.T) {
	db := newDB(t, auctionsSQL)
	require.NoError(t, db.Close())
	g := newGuard(t, db)
	require.ErrorIs(t, g.Admit(t.Context(), claim("auction/7", 1)), fence.ErrUnavailable)
	require.ErrorIs(t, g.Table(once).Update(t.Context(), claim("auction/7", 1), 7, nil), fence.ErrUnavailable)
}

// A reader of a rollback-journal database keeps a COMMIT waiting. When the wait is over it is certain
// that nothing was committed, and the same works later.
func TestCommit_BehindAReader(t *testing.T) {
	f := newFile(t, "delete")
	reader := f.open(t)
	g := newGuard(t, f.open(t), sqlguard.WithBusyTimeout(50*time.Millisecond))
	reading, err := reader.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, reading.QueryRowContext(t.Context(), "SELECT count(*) FROM fence_marks").Scan(new(int)))

	c := claim("auction/7", 34)
	err = g.Admit(t.Context(), c)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
	require.NoError(t, reading.Rollback())
	assert.Zero(t, mark(t, reader, "auction/7"))
	require.NoError(t, g.Admit(t.Context(), c))
}

// Once the COMMIT is under way the end of the context has no say: the call knows what became of it.
func TestCommit_IsNotCutOff(t *testing.T) {
	f := newFile(t, "wal")
	ctx, cancel := context.WithCancel(t.Context())
	faults := &faulty{dsn: "file:" + f.path, commit: func(commit func() error) error {
		cancel()
		return commit()
	}}
	require.NoError(t, newGuard(t, faults.open(t)).Admit(ctx, claim("auction/7", 34)))
	require.Error(t, ctx.Err())
	assert.EqualValues(t, 34, mark(t, f.open(t), "auction/7"))
}

// The context ends while the function is busy: the transaction is rolled back under it, others get in,
// and the function's success no longer counts.
func TestInTx_ContextEndsWithinTheFunction(t *testing.T) {
	f := newFile(t, "wal")
	g, other := newGuard(t, f.open(t)), newGuard(t, f.open(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := g.InTx(ctx, claim("auction/7", 33), func(*sql.Tx) error {
		cancel()
		assert.NoError(t, other.Admit(t.Context(), claim("auction/7", 32)))
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	assert.EqualValues(t, 32, mark(t, f.open(t), "auction/7"))
}

func TestInTx_FunctionEndsTheTransaction(t *testing.T) {
	db := newDB(t)
	g := newGuard(t, db)
	for name, end := range map[string]func(*sql.Tx) error{"Commit": (*sql.Tx).Commit, "Rollback": (*sql.Tx).Rollback} {
		err := g.InTx(t.Context(), claim(name, 33), end)
		require.ErrorIs(t, err, sql.ErrTxDone, name)
		require.NotErrorIs(t, err, fence.ErrUnavailable, name)
	}
}
