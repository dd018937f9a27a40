package pgguard_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// none is a pool that can't connect, and need not.
func none(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestNew_RefusesANilDB(t *testing.T) {
	for name, db := range map[string]pgguard.DB{"interface": nil, "pool": (*pgxpool.Pool)(nil), "conn": (*pgx.Conn)(nil)} {
		_, err := pgguard.New(db)
		require.ErrorIs(t, err, fence.ErrInvalid, name)
		require.ErrorIs(t, pgguard.Migrate(t.Context(), db), fence.ErrInvalid, name)
	}
}

func TestNew_RefusesBadOptionsByName(t *testing.T) {
	for _, row := range []struct {
		option pgguard.Option
		says   string
	}{
		{nil, "nil"},
		{pgguard.WithSchema(""), `WithSchema("")`},
		{pgguard.WithSchema("a\x00b"), `WithSchema("a\x00b")`},
		{pgguard.WithSchema(strings.Repeat("a", 64)), "WithSchema"},
		{pgguard.WithHoldTimeout(0), "WithHoldTimeout(0s)"},
		{pgguard.WithHoldTimeout(-time.Second), "WithHoldTimeout(-1s)"},
		{pgguard.WithHoldTimeout(math.MaxInt32 * time.Millisecond), "WithHoldTimeout"},
		{pgguard.WithHoldTimeout(math.MaxInt64), "WithHoldTimeout"},
		{pgguard.WithTxOptions(pgx.TxOptions{AccessMode: pgx.ReadOnly}), `"read only"`},
		{pgguard.WithTxOptions(pgx.TxOptions{IsoLevel: "chaos; drop"}), `"chaos; drop"`},
		{pgguard.WithTxOptions(pgx.TxOptions{DeferrableMode: "later"}), `"later"`},
		{pgguard.WithTxOptions(pgx.TxOptions{BeginQuery: "begin read only"}), `"begin read only"`},
		{pgguard.WithTxOptions(pgx.TxOptions{CommitQuery: "rollback"}), `"rollback"`},
	} {
		_, err := pgguard.New(none(t), row.option)
		require.ErrorIs(t, err, fence.ErrInvalid, row.says)
		assert.Contains(t, err.Error(), row.says)
		require.ErrorIs(t, pgguard.Migrate(t.Context(), none(t), row.option), fence.ErrInvalid)
	}
}

// TestInvalidCallsSendNothing uses a pool without a server: what reaches it is ErrUnavailable.
func TestInvalidCallsSendNothing(t *testing.T) {
	g, err := pgguard.New(none(t))
	require.NoError(t, err)
	ctx := t.Context()
	table := g.Table(pgguard.Table{Name: "auctions", Key: "id", Fence: "fence", Holder: "fence_holder"})
	never := func(pgx.Tx) error { t.Error("fn ran"); return nil }
	for name, c := range map[string]fence.Claim{
		"no resource":   {Token: 1},
		"long resource": {Resource: strings.Repeat("7", 513), Token: 1},
		"no token":      {Resource: "7"},
		"C40 overflow":  {Resource: "7", Token: math.MinInt64}, // what 9223372036854775808 becomes
		"negative":      {Resource: "7", Token: -1, Holder: uuid.New()},
	} {
		for call, err := range map[string]error{
			"Admit":        g.Admit(ctx, c),
			"InTx":         g.InTx(ctx, c, never),
			"Do":           g.Do(ctx, c, func(context.Context) error { return never(nil) }),
			"AdmitTx":      g.AdmitTx(ctx, untouchable{}, c),
			"Table.Admit":  table.Admit(ctx, c),
			"Table.Update": table.Update(ctx, c, c.Resource, nil),
			"Table.Upsert": table.Upsert(ctx, c, c.Resource, nil),
		} {
			require.ErrorIs(t, err, fence.ErrInvalid, "%s: %s", call, name)
			require.NotErrorIs(t, err, fence.ErrUnavailable, "%s: %s", call, name)
		}
	}
	c := claim("7", 1)
	require.ErrorIs(t, g.InTx(ctx, c, nil), fence.ErrInvalid)
	require.ErrorIs(t, g.Do(ctx, c, nil), fence.ErrInvalid)
	require.ErrorIs(t, g.AdmitTx(ctx, nil, c), fence.ErrInvalid)
	require.ErrorIs(t, g.AdmitTx(ctx, (*pgxpool.Tx)(nil), c), fence.ErrInvalid)
}

// untouchable is a transaction that panics when it is used.
type untouchable struct{ pgx.Tx }

func TestNoServerIsUnavailable(t *testing.T) {
	g, err := pgguard.New(none(t))
	require.NoError(t, err)
	table := g.Table(pgguard.Table{Name: "auctions", Key: "id", Fence: "fence", Holder: "fence_holder"})
	never := func(pgx.Tx) error { t.Error("fn ran"); return nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"live": t.Context(), "ended": ended} {
		for call, err := range map[string]error{
			"Admit":        g.Admit(ctx, claim("7", 1)),
			"InTx":         g.InTx(ctx, claim("7", 1), never),
			"Table.Update": table.Update(ctx, claim("7", 1), 7, nil),
			"Migrate":      pgguard.Migrate(ctx, none(t)),
		} {
			require.ErrorIs(t, err, fence.ErrUnavailable, "%s, context %s", call, name)
			require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, "%s, context %s", call, name)
			if name == "ended" {
				require.ErrorIs(t, err, context.Canceled, call)
			}
		}
	}
}

// TestOpenTransactionIsRefused: on a connection in a transaction BEGIN begins nothing, and COMMIT
// would commit what the caller has begun.
func TestOpenTransactionIsRefused(t *testing.T) {
	e := newEnv(t)
	pooled, err := e.Acquire(t.Context())
	require.NoError(t, err)
	defer pooled.Release()
	for name, db := range map[string]pgguard.DB{"pgxpool.Conn": pooled, "pgx.Conn": pooled.Conn()} {
		g := newGuard(t, db)
		c := claim("auction/7", 33)
		require.NoError(t, g.InTx(t.Context(), c, func(pgx.Tx) error { return nil }), name)

		tx, err := db.BeginTx(t.Context(), pgx.TxOptions{})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7)")
		require.NoError(t, err)
		for call, err := range map[string]error{
			"InTx":    g.InTx(t.Context(), c, func(pgx.Tx) error { return nil }),
			"Admit":   g.Admit(t.Context(), c),
			"Migrate": pgguard.Migrate(t.Context(), db),
			"Table": g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"}).
				Update(t.Context(), c, 7, nil),
		} {
			require.ErrorIs(t, err, fence.ErrInvalid, "%s on %s", call, name)
			require.ErrorContains(t, err, "AdmitTx")
		}
		require.NoError(t, g.AdmitTx(t.Context(), tx, c))
		require.NoError(t, tx.Rollback(t.Context()))
		assert.Zero(t, e.number(t, "SELECT count(*) FROM auctions"), "the caller's transaction was not committed")
		e.exec(t, "TRUNCATE fence_marks")
	}
}

func TestErrorsNeverShowTheHolder(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "CREATE TABLE bad (id bigint PRIMARY KEY, fence bigint, holder text)")
	auction := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence", Holder: "fence_holder"})
	c, late := claim("auction/7", 34), claim("auction/7", 33)
	require.NoError(t, g.Admit(t.Context(), c))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"stale":      g.Admit(t.Context(), late),
		"ended":      g.Admit(ended, late),
		"not found":  auction.Update(t.Context(), late, 7, nil),
		"wrong key":  auction.Update(t.Context(), late, 8, nil),
		"wrong type": g.Table(pgguard.Table{Name: "bad", Key: "id", Fence: "fence", Holder: "holder"}).Update(t.Context(), claim("7", 1), 7, nil),
		"fn":         g.InTx(t.Context(), c, func(tx pgx.Tx) error { return g.AdmitTx(t.Context(), tx, late) }),
	} {
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), late.Holder.String(), name)
		assert.NotContains(t, err.Error(), c.Holder.String(), name)
	}
}
