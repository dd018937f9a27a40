package pgguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// TestG09_TwoDatabases nests the transactions of two databases. A call that didn't take part in that of
// its own would wait for it until ctx ends.
func TestG09_TwoDatabases(t *testing.T) {
	a, b := newEnv(t), newEnv(t)
	ga, gb := a.guard(t), b.guard(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claim := func(token fence.Token) fence.Claim { return claim("r", token) }
	require.NoError(t, ga.Do(ctx, claim(1), func(ctx context.Context) error {
		return gb.Do(ctx, claim(1), func(ctx context.Context) error {
			return errors.Join(
				ga.Admit(ctx, claim(2)),
				gb.Admit(ctx, claim(3)),
				ga.Do(ctx, claim(4), func(ctx context.Context) error { return gb.Admit(ctx, claim(5)) }),
				a.guard(t).Admit(ctx, claim(6)),
			)
		})
	}))
	assert.EqualValues(t, 6, a.mark(t, "r"))
	assert.EqualValues(t, 5, b.mark(t, "r"))
}

// TestG03_RefusalThatIsIgnoredInInTx comes back as what it was.
func TestG03_RefusalThatIsIgnoredInInTx(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	require.NoError(t, g.Admit(t.Context(), claim("s", 34)))
	late := claim("s", 33)
	err := g.InTx(t.Context(), claim("r", 1), func(tx pgx.Tx) error {
		requireRefused(t, g.AdmitTx(t.Context(), tx, late), late, fence.ErrStale, 34)
		return nil
	})
	requireRefused(t, err, late, fence.ErrStale, 34)
	assert.Zero(t, e.mark(t, "r"))
}
