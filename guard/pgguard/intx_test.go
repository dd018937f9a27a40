package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
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

// TestC40_InTx_EveryToken carries the greatest tokens exactly.
func TestC40_InTx_EveryToken(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	for _, token := range []fence.Token{2147483648, 9007199254740993, 9223372036854775806, 9223372036854775807} {
		c := claim("auction/7", token)
		require.NoError(t, g.InTx(t.Context(), c, func(pgx.Tx) error { return nil }))
		assert.Equal(t, token, e.mark(t, "auction/7"))
		requireRefused(t, g.Admit(t.Context(), withToken(c, token-1)), withToken(c, token-1), fence.ErrStale, token)
	}
}

func withToken(c fence.Claim, token fence.Token) fence.Claim {
	c.Token = token
	return c
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

// TestInTx_EndedBySQLIsNoSuccess has the function run a script with a COMMIT or ROLLBACK of its own: what
// comes after it is in no transaction.
func TestInTx_EndedBySQLIsNoSuccess(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		err := e.guard(t).InTx(t.Context(), claim(end, 33), func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), end); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "UPDATE auctions SET bid = 120 WHERE id = 7")
			return err
		})
		require.ErrorIs(t, err, fence.ErrOutcomeUnknown, end)
		require.ErrorContains(t, err, "ended the transaction by SQL", end)
	}
}
