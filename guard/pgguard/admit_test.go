package pgguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

func TestAdmit_WithSchemaFindsTheMarksFromAnySearchPath(t *testing.T) {
	e := newEnv(t)
	pool := connectPool(t, withSettings(t, e.url, "options", "-csearch_path=pg_catalog"))
	require.NoError(t, newGuard(t, pool, pgguard.WithSchema(e.schema)).Admit(t.Context(), claim("auction/7", 33)))
	assert.EqualValues(t, 33, e.mark(t, "auction/7"))
}

// TestAdmit_BeforeTheMigrations names the remedy, and is no verdict.
func TestAdmit_BeforeTheMigrations(t *testing.T) {
	e := newEnv(t)
	never := func(pgx.Tx) error { t.Error("fn ran"); return nil }
	for name, g := range map[string]*pgguard.Guard{
		"no function": e.guard(t, pgguard.WithSchema("pg_catalog")),
		"no schema":   e.guard(t, pgguard.WithSchema("absent")),
	} {
		tx, err := e.Begin(t.Context())
		require.NoError(t, err)
		for call, err := range map[string]error{
			"Admit":   g.Admit(t.Context(), claim("auction/7", 1)),
			"InTx":    g.InTx(t.Context(), claim("auction/7", 1), never),
			"AdmitTx": g.AdmitTx(t.Context(), tx, claim("auction/7", 1)),
		} {
			require.ErrorContains(t, err, "pgguard.Migrate", "%s: %s", call, name)
			require.ErrorContains(t, err, "migrations")
			var pgErr *pgconn.PgError
			require.ErrorAs(t, err, &pgErr)
			require.NotErrorIs(t, err, fence.ErrUnavailable)
		}
		require.NoError(t, tx.Rollback(t.Context()))
	}

	e.exec(t, "DROP TABLE fence_marks")
	require.ErrorContains(t, e.guard(t).Admit(t.Context(), claim("auction/7", 1)), "pgguard.Migrate")
}

func TestG03_AdmitTx_RefusalAbortsUnlessTheCallerHasASavepoint(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	require.NoError(t, g.Admit(t.Context(), claim("auction/7", 34)))
	late := claim("auction/7", 33)

	tx, err := e.Begin(t.Context())
	require.NoError(t, err)
	requireRefused(t, g.AdmitTx(t.Context(), tx, late), late, fence.ErrStale, 34)
	require.Error(t, bid(t.Context(), tx, 7, 120), "nothing more is accepted")
	require.ErrorIs(t, tx.Commit(t.Context()), pgx.ErrTxCommitRollback)

	tx, err = e.Begin(t.Context())
	require.NoError(t, err)
	savepoint, err := tx.Begin(t.Context())
	require.NoError(t, err)
	requireRefused(t, g.AdmitTx(t.Context(), savepoint, late), late, fence.ErrStale, 34)
	require.NoError(t, savepoint.Rollback(t.Context()))
	require.NoError(t, bid(t.Context(), tx, 7, 130), "the caller's own decision")
	require.NoError(t, tx.Commit(t.Context()))

	got, _ := e.row(t, 7)
	assert.EqualValues(t, 130, got)
	assert.EqualValues(t, 34, e.mark(t, "auction/7"))
}

// TestC45_AdmitTx_SerializationFailureIsRetryable: the snapshot is older than the mark, so the verdict
// can't be known in this transaction.
func TestC45_AdmitTx_SerializationFailureIsRetryable(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	require.NoError(t, g.Admit(t.Context(), claim("auction/7", 30)))
	for name, c := range map[string]fence.Claim{"newest": claim("auction/7", 40), "stale": claim("auction/7", 31)} {
		tx, err := e.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT 1 FROM auctions")
		require.NoError(t, err)
		require.NoError(t, g.Admit(t.Context(), claim("auction/7", e.mark(t, "auction/7")+2)))

		err = g.AdmitTx(t.Context(), tx, c)
		require.ErrorIs(t, err, fence.ErrUnavailable, name)
		require.NotErrorIs(t, err, fence.ErrStale, name)
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr)
		assert.Equal(t, "40001", pgErr.Code)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	assert.EqualValues(t, 34, e.mark(t, "auction/7"))
}

// TestC45_DeadlockIsRetryable lets two transactions take two marks in opposite order.
func TestC45_DeadlockIsRetryable(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	first, err := e.Begin(t.Context())
	require.NoError(t, err)
	second, err := e.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = second.Rollback(context.Background()) }()
	require.NoError(t, g.AdmitTx(t.Context(), first, claim("auction/7", 1)))
	require.NoError(t, g.AdmitTx(t.Context(), second, claim("auction/8", 1)))
	waiting := async(func() error {
		defer func() { _ = first.Rollback(context.Background()) }()
		return g.AdmitTx(t.Context(), first, claim("auction/8", 2))
	})
	e.blocked(t, 1)
	errs := []error{g.AdmitTx(t.Context(), second, claim("auction/7", 2))}
	require.NoError(t, second.Rollback(t.Context()))
	errs = append(errs, waiting())

	victims := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		victims++
		require.ErrorIs(t, err, fence.ErrUnavailable)
		require.NotErrorIs(t, err, fence.ErrStale)
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr)
		assert.Equal(t, "40P01", pgErr.Code)
	}
	assert.Equal(t, 1, victims)
	assert.Zero(t, e.mark(t, "auction/7"))
	assert.Zero(t, e.mark(t, "auction/8"))
}

// TestAdmit_RetriesAConflict: at REPEATABLE READ by default a statement that waited for the mark fails
// with 40001. It is a transaction of its own, so it is sent again.
func TestC45_Admit_ConflictIsResolved(t *testing.T) {
	e := newEnv(t)
	g := newGuard(t, connectPool(t, withSettings(t, e.url, "default_transaction_isolation", "repeatable read")))
	for _, row := range []struct {
		token   fence.Token
		verdict error
	}{{35, nil}, {33, fence.ErrStale}} {
		e.exec(t, "TRUNCATE fence_marks")
		require.NoError(t, g.Admit(t.Context(), claim("auction/7", 30)))
		tx, err := e.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, g.AdmitTx(t.Context(), tx, claim("auction/7", 34)))
		c := claim("auction/7", row.token)
		waiting := async(func() error { return g.Admit(t.Context(), c) })
		e.blocked(t, 1)
		require.NoError(t, tx.Commit(t.Context()))
		if row.verdict == nil {
			require.NoError(t, waiting())
		} else {
			requireRefused(t, waiting(), c, row.verdict, 34)
		}
	}
}

// TestAdmit_RepeatedDoesNotBloat: the row's versions stay on its page.
func TestAdmit_RepeatedDoesNotBloat(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	c := claim("auction/7", 33)
	for range 2000 {
		require.NoError(t, g.Admit(t.Context(), c))
	}
	assert.LessOrEqual(t, e.number(t, "SELECT pg_relation_size('fence_marks')"), int64(2*8192))
	assert.LessOrEqual(t, e.number(t, "SELECT pg_relation_size('fence_marks_pkey')"), int64(2*8192))
}

// TestG10_LockWaitEndsWithContext: the one who waits in Admit can't tell whether it was admitted after
// all; in InTx it is sure that nothing was committed.
func TestG10_LockWaitEndsWithContext(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	tx, err := e.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.AdmitTx(t.Context(), tx, claim("auction/7", 33)))

	ctx, cancel := context.WithCancel(t.Context())
	admit := async(func() error { return g.Admit(ctx, claim("auction/7", 34)) })
	inTx := async(func() error {
		return g.InTx(ctx, claim("auction/7", 34), func(pgx.Tx) error { t.Error("fn ran"); return nil })
	})
	e.blocked(t, 2)
	cancel()
	err = admit()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
	err = inTx()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)

	e.blocked(t, 0) // the server has been told as well
	require.NoError(t, tx.Commit(t.Context()))
	assert.EqualValues(t, 33, e.mark(t, "auction/7"))
}

// TestPoolWaitEndsWithContext: without a connection nothing was sent, so the outcome is known.
func TestPoolWaitEndsWithContext(t *testing.T) {
	e := newEnv(t)
	pool := connectPool(t, withSettings(t, e.url, "pool_max_conns", "16"))
	g := newGuard(t, pool)
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	table := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	for call, f := range map[string]func(context.Context) error{
		"Admit": func(ctx context.Context) error { return g.Admit(ctx, claim("auction/7", 1)) },
		"InTx": func(ctx context.Context) error {
			return g.InTx(ctx, claim("auction/7", 1), func(pgx.Tx) error { return nil })
		},
		"Table": func(ctx context.Context) error { return table.Update(ctx, claim("auction/7", 1), 7, nil) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := f(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, call)
		require.ErrorIs(t, err, fence.ErrUnavailable, call)
		require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, call)
	}
}

func TestAdmit_ZeroHolderWritesOnce(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	c := fence.Claim{Resource: "auction/7", Token: 33}
	require.NoError(t, g.Admit(t.Context(), c))
	requireRefused(t, g.Admit(t.Context(), c), c, fence.ErrReplayed, 33)
	assert.Equal(t, uuid.Nil.String(), func() (s string) {
		require.NoError(t, e.QueryRow(t.Context(), "SELECT holder::text FROM fence_marks").Scan(&s))
		return s
	}())
}
