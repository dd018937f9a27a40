package memlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"

	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, func(*testing.T) driver.Driver { return memlock.New() })
}

// TestL17_TokensRiseWithinAMicrosecond stops the clock.
func TestL17_TokensRiseWithinAMicrosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		var last fence.Token
		for range 10 {
			r := driver.Request{Resource: "a", Holder: uuid.New(), TTL: time.Second}
			g, err := d.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.Greater(t, g.Token, last)
			last = g.Token
			require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "a", Token: g.Token, Holder: r.Holder}, 0))
		}
	})
}
