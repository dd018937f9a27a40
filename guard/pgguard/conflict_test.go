package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

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
