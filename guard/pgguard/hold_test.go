package pgguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// TestG10_HoldTimeoutFreesTheResource: the holder is paused inside fn, the server ends its transaction.
func TestG10_HoldTimeoutFreesTheResource(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t, pgguard.WithHoldTimeout(300*time.Millisecond))
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
