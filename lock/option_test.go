package lock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestL14_OptionsUpToTheirBounds are valid.
func TestL14_OptionsUpToTheirBounds(t *testing.T) {
	for name, opts := range map[string][]lock.Option{
		"least TTL":        {lock.WithTTL(20 * time.Millisecond)},
		"longest TTL":      {lock.WithTTL(87600 * time.Hour)},
		"renewal, soonest": {lock.WithRenewEvery(5 * time.Millisecond)},
		"renewal, latest":  {lock.WithRenewEvery(29700*time.Millisecond - 1)},
		"hold":             {lock.WithMinHold(30 * time.Second)},
		"no hold":          {lock.WithMinHold(0)},
		"no retries":       {lock.WithRetryFor(0)},
		"long label":       {lock.WithLabel(strings.Repeat("ü", 64))},
		"no label":         {lock.WithLabel("")},
		"nothing":          {lock.WithSeal(nil), lock.WithLogger(nil), lock.WithObserver(nil), lock.IfHeldBy("")},
	} {
		_, err := lock.New(memlock.New(), opts...)
		assert.NoError(t, err, name)
	}
	_, err := lock.New(memlock.New(), lock.WithLabel("a\u0085b"))
	assert.ErrorIs(t, err, fence.ErrInvalid)
}

// TestWithRenewEvery has the TTL be long enough for it, and then too short.
func TestWithRenewEvery(t *testing.T) {
	for ttl, every := range map[time.Duration]time.Duration{
		30 * time.Second: 5 * time.Second,
		// Less its margin of 1 % it is below 5 s.
		5040 * time.Millisecond: 1680 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			var renewals atomic.Int32
			d := &locktest.Scripted{Driver: memlock.New()}
			d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
				renewals.Add(1)
				return next(ctx, rs)
			}
			lease := acquire(t, newLocker(t, d, lock.WithRenewEvery(5*time.Second)), "a")
			require.NoError(t, lease.Renew(t.Context(), ttl))
			renewals.Store(0)
			time.Sleep(1000 * every)
			assert.InDelta(t, 1055, renewals.Load(), 30, "up to a tenth earlier")
			require.NoError(t, lease.Err())
		})
	}
}
