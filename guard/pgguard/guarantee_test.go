package pgguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// TestPoint1_AdmitBeforeYouRead shows what the first point of the guarantee warns of, and the three
// ways around it. A(33) is paused; B(34) reads 100 and wants to write 110 over it; A wakes up and
// writes 120.
func TestPoint1_AdmitBeforeYouRead(t *testing.T) {
	a, b := claim("auction/7", 33), claim("auction/7", 34)
	read := func(e *env) int64 {
		amount, _ := e.row(t, 7)
		return amount
	}
	write := func(g *pgguard.Guard, c fence.Claim, amount int) error {
		return g.InTx(t.Context(), c, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, amount) })
	}
	prepare := func(t *testing.T) (*env, *pgguard.Guard) {
		e := newEnv(t)
		e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
		return e, e.guard(t)
	}

	t.Run("ReadBeforeAdmission_LosesAnUpdate", func(t *testing.T) {
		e, g := prepare(t)
		require.EqualValues(t, 100, read(e)) // B decides on this
		require.NoError(t, write(g, a, 120), "34 was never admitted")
		require.NoError(t, write(g, b, 110))
		assert.EqualValues(t, 110, read(e), "A's 120 is lost: no guard can see that")
	})
	t.Run("Sealed", func(t *testing.T) {
		e, g := prepare(t)
		require.NoError(t, g.Admit(t.Context(), b))
		require.EqualValues(t, 100, read(e))
		require.ErrorIs(t, write(g, a, 120), fence.ErrStale)
		require.NoError(t, write(g, b, 110))
		assert.EqualValues(t, 110, read(e))
	})
	t.Run("ReadInsideInTx", func(t *testing.T) {
		for _, level := range levels {
			e, _ := prepare(t)
			g := e.atLevel(t, level)
			var late func() error
			require.NoError(t, g.InTx(t.Context(), b, func(tx pgx.Tx) error {
				late = async(func() error { return write(g, a, 120) })
				e.blocked(t, 1)
				var seen int
				if err := tx.QueryRow(t.Context(), "SELECT bid FROM auctions WHERE id = 7").Scan(&seen); err != nil {
					return err
				}
				return bid(t.Context(), tx, 7, seen+10)
			}))
			require.ErrorIs(t, late(), fence.ErrStale, level)
			assert.EqualValues(t, 110, read(e), level)
		}
	})
	t.Run("ConditionInTheWrite", func(t *testing.T) {
		e, g := prepare(t)
		require.NoError(t, write(g, a, 120))
		require.NoError(t, g.InTx(t.Context(), b, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "UPDATE auctions SET bid = 110 WHERE id = 7 AND bid < 110")
			return err
		}))
		assert.EqualValues(t, 120, read(e))
	})
}
