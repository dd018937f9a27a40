package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestL22_DetachedLeaseLivesOnAndIsResumedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		first := newLocker(t, d)
		start := time.Now()
		lease := acquire(t, first, "seat", lock.WithTTL(10*time.Minute), lock.WithoutRenewal())
		claim := lease.Detach()
		require.Equal(t, lease.Claim(), claim)
		require.ErrorIs(t, lease.Err(), lock.ErrReleased)
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrReleased)
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrReleased)
		require.Equal(t, claim, lease.Detach())
		require.NoError(t, first.Close(t.Context())) // a deploy

		time.Sleep(4 * time.Minute)
		second := newLocker(t, d)
		_, err := second.TryAcquire(t.Context(), "seat")
		require.ErrorIs(t, err, lock.ErrHeld)
		resumed, err := second.Resume(t.Context(), claim)
		require.NoError(t, err)
		assert.Greater(t, resumed.Token(), claim.Token)
		assert.NotEqual(t, claim.Holder, resumed.Claim().Holder)
		assert.Equal(t, "seat", resumed.Resource())
		assert.Equal(t, start.Add(10*time.Minute-3600*time.Millisecond), resumed.Deadline(), "1 % of what was left is the margin")
		_, err = second.Resume(t.Context(), claim)
		require.ErrorIs(t, err, lock.ErrLost, "a double click")
		require.NoError(t, resumed.Err())
		require.NoError(t, resumed.Release(t.Context()))
		require.NoError(t, acquire(t, second, "seat", lock.WithoutWaiting()).Release(t.Context()))
	})
}

func TestL22_ResumeRefusesWhatIsNotExactlyTheLease(t *testing.T) {
	d := memlock.New()
	l := newLocker(t, d)
	lease := acquire(t, l, "a")
	claim := lease.Claim()
	for name, bad := range map[string]fence.Claim{
		"another holder": {Resource: "a", Token: claim.Token, Holder: uuid.New()},
		"another token":  {Resource: "a", Token: claim.Token + 1, Holder: claim.Holder},
		"a free one":     {Resource: "b", Token: claim.Token, Holder: claim.Holder},
	} {
		_, err := l.Resume(t.Context(), bad)
		require.ErrorIs(t, err, lock.ErrLost, name)
	}
	for name, bad := range map[string]fence.Claim{
		"no holder":   {Resource: "a", Token: claim.Token},
		"no token":    {Resource: "a", Holder: claim.Holder},
		"no resource": {Token: claim.Token, Holder: claim.Holder},
	} {
		_, err := l.Resume(t.Context(), bad)
		require.ErrorIs(t, err, fence.ErrInvalid, name)
	}
	_, err := l.Resume(t.Context(), claim, lock.WithTTL(time.Millisecond))
	require.ErrorIs(t, err, fence.ErrInvalid)
	_, err = l.Resume(t.Context(), claim, nil)
	require.ErrorIs(t, err, fence.ErrInvalid)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Resume(ended, claim)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, lease.Renew(t.Context(), time.Minute))
}

func TestL22_ResumeRenewsOnlyWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithTTL(20*time.Second))
		resume := func(opts ...lock.Option) *lock.Lease {
			t.Helper()
			claim := acquire(t, l, "a", lock.WithTTL(10*time.Second)).Detach()
			time.Sleep(time.Second)
			lease, err := l.Resume(t.Context(), claim, opts...)
			require.NoError(t, err)
			return lease
		}
		for name, row := range map[string]struct {
			opts []lock.Option
			ends time.Duration // after the resumption; 0: it is renewed
		}{
			"nothing told":  {nil, 8910 * time.Millisecond},
			"a shorter TTL": {[]lock.Option{lock.WithTTL(5 * time.Second)}, 4950 * time.Millisecond},
			"a longer TTL":  {[]lock.Option{lock.WithTTL(time.Minute)}, 59400 * time.Millisecond},
			"renewal":       {[]lock.Option{lock.WithRenewEvery(3 * time.Second)}, 0},
		} {
			lease := resume(row.opts...)
			start := time.Now()
			if row.ends == 0 {
				time.Sleep(2 * time.Minute)
				require.NoError(t, lease.Err(), name)
				require.NoError(t, lease.Release(t.Context()), name)
				continue
			}
			require.ErrorIs(t, endOf(lease), lock.ErrLost, name)
			assert.Equal(t, row.ends, time.Since(start), name)
			time.Sleep(time.Second)
		}
	})
}

func TestL22_OldClaimIsShutOutOnceTheNewOneIsSealed(t *testing.T) {
	guard := memguard.New()
	l := newLocker(t, memlock.New(), lock.WithSeal(guard))
	old := acquire(t, l, "a").Detach()
	require.NoError(t, guard.Admit(t.Context(), old))
	lease, err := l.Resume(t.Context(), old)
	require.NoError(t, err)
	require.ErrorIs(t, guard.Admit(t.Context(), old), fence.ErrStale)
	require.NoError(t, guard.Admit(t.Context(), lease.Claim()))
}

// TestL22_L04_UnansweredResumeIsEnded has the store do it, and the answer not come.
func TestL22_L04_UnansweredResumeIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnResume = func(ctx context.Context, c fence.Claim, r driver.Request, next locktest.ResumeFunc) (driver.Grant, error) {
			_, _ = next(ctx, c, r)
			<-ctx.Done()
			return driver.Grant{}, ctx.Err()
		}
		l := newLocker(t, d)
		claim := acquire(t, l, "a").Detach()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Resume(ctx, claim)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
	})
}

func TestUnsupported(t *testing.T) {
	l := newLocker(t, &locktest.Scripted{Driver: memlock.New()})
	claim := acquire(t, l, "a").Claim()
	_, err := l.Resume(t.Context(), claim)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = l.Inspect(t.Context(), "a")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = l.Break(t.Context(), "a")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, l.Raise(t.Context(), "a", 7), errors.ErrUnsupported)
}

func TestL18_ResumeWhoseSealFailsFreesTheResource(t *testing.T) {
	l := newLocker(t, memlock.New())
	claim := acquire(t, l, "a").Detach()
	var calls atomic.Int32
	_, err := l.Resume(t.Context(), claim, lock.WithSeal(sealFunc(func(context.Context, fence.Claim) error {
		calls.Add(1)
		return fence.ErrUnavailable
	})))
	require.ErrorIs(t, err, fence.ErrUnavailable)
	assert.EqualValues(t, 1, calls.Load())
	require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
}

func TestResume_RenewsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		claim := acquire(t, l, "a", lock.WithTTL(5*time.Second)).Detach()
		lease, err := l.Resume(t.Context(), claim, lock.WithRenewEvery(8*time.Second)) // of 30 s, but 5 s are left
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
	})
}

// TestL22_L04_CopyOfASlowAcquire has a copy of the first request arrive when the seat was paid for and given back.
func TestL22_L04_CopyOfASlowAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		d := locktest.ScriptAll(store)
		copied := make(chan driver.Request, 1)
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			copied <- r
			time.Sleep(300 * time.Millisecond)
			return next(ctx, r, p)
		}
		l := newLocker(t, d)
		claim := acquire(t, l, "seat", lock.WithTTL(10*time.Minute)).Detach()
		lease, err := l.Resume(t.Context(), claim)
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		_, err = store.Acquire(t.Context(), <-copied)
		require.Error(t, err)
		info, err := l.Inspect(t.Context(), "seat")
		require.NoError(t, err)
		assert.False(t, info.Held)
	})
}

func TestL15_GrantsWithoutSense(t *testing.T) {
	d := locktest.ScriptAll(memlock.New())
	var token fence.Token
	d.OnResume = func(context.Context, fence.Claim, driver.Request, locktest.ResumeFunc) (driver.Grant, error) {
		return driver.Grant{Token: token, TTL: time.Minute}, nil
	}
	d.OnBreak = func(context.Context, driver.Request, string, locktest.BreakFunc) (driver.Grant, error) {
		return driver.Grant{TTL: time.Minute}, nil
	}
	l := newLocker(t, d)
	claim := acquire(t, l, "a").Claim()
	for _, token = range []fence.Token{0, claim.Token} {
		_, err := l.Resume(t.Context(), claim)
		require.ErrorIs(t, err, lock.ErrUnavailable)
	}
	_, err := l.Break(t.Context(), "a")
	require.ErrorIs(t, err, lock.ErrUnavailable)
}
