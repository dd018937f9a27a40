package lock_test

import (
	"context"
	"fmt"
	"runtime"
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

type valueKey struct{}

func TestLease_ContextKeepsValuesNotTheEnd(t *testing.T) {
	l := newLocker(t, memlock.New())
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "v"))
	lease, err := l.Acquire(ctx, "a")
	require.NoError(t, err)
	cancel()
	require.NoError(t, lease.Context().Err())
	assert.Equal(t, "v", lease.Context().Value(valueKey{}))
	require.NoError(t, lease.Release(ctx))
	cause := context.Cause(lease.Context())
	require.ErrorIs(t, cause, lock.ErrReleased)
	require.ErrorIs(t, cause, context.Canceled)
}

func TestLease_BindEndsWithEither(t *testing.T) {
	l := newLocker(t, memlock.New())
	lease := acquire(t, l, "a")
	ctx, cancel := context.WithCancel(t.Context())
	bound, done := lease.Bind(ctx)
	other, otherDone := lease.Bind(t.Context())
	defer otherDone()
	claim, ok := fence.ForResource(bound, "a")
	require.True(t, ok)
	require.Equal(t, lease.Claim(), claim)
	cancel()
	<-bound.Done()
	done()
	require.NoError(t, other.Err())
	require.NoError(t, lease.Release(t.Context()))
	<-other.Done()
	require.ErrorIs(t, context.Cause(other), lock.ErrReleased)
	for range 100 {
		ended, done := lease.Bind(t.Context())
		require.ErrorIs(t, context.Cause(ended), lock.ErrReleased)
		require.Error(t, ended.Err())
		done()
	}
}

func TestL09_ReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unblock := make(chan struct{})
		defer close(unblock)
		deaf := &locktest.Scripted{Driver: memlock.New()}
		deaf.OnRelease = func(context.Context, fence.Claim, time.Duration, locktest.ReleaseFunc) error {
			<-unblock
			return errBroken
		}
		l := newLocker(t, deaf)
		lease := acquire(t, l, "a")
		start := time.Now()
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrUnavailable)
		assert.Equal(t, 5*time.Second, time.Since(start))
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrReleased)
	})
}

func TestL09_FailedReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		flaky := &locktest.Scripted{Driver: memlock.New()}
		flaky.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if tries.Add(1) < 4 {
				return errBroken
			}
			return next(ctx, c, keep)
		}
		l := newLocker(t, flaky)
		lease := acquire(t, l, "a")
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrUnavailable)
		start := time.Now()
		acquire(t, l, "a")
		assert.Less(t, time.Since(start), time.Second)
	})
}

func TestL18_SealedBeforeHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		l := newLocker(t, store)
		var sealed fence.Claim
		seal := sealFunc(func(ctx context.Context, c fence.Claim) error {
			sealed = c
			inCtx, ok := fence.FromContext(ctx)
			assert.True(t, ok)
			assert.Equal(t, c, inCtx)
			return nil
		})
		lease := acquire(t, l, "a", lock.WithSeal(seal))
		assert.Equal(t, lease.Claim(), sealed)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestL18_FailedSealReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithMinHold(10*time.Second))
		refusal := &fence.RejectedError{Mark: 99, Verdict: fence.ErrStale}
		seal := sealFunc(func(context.Context, fence.Claim) error { return refusal })
		lease, err := l.Acquire(t.Context(), "a", lock.WithSeal(seal))
		require.Nil(t, lease)
		require.ErrorIs(t, err, fence.ErrStale)
		var rejected *fence.RejectedError
		require.ErrorAs(t, err, &rejected)
		acquire(t, l, "a", lock.WithoutWaiting()) // at once, without a minimum hold
	})
}

func TestL18_SealEndsWithTheContextAndWithTheLease(t *testing.T) {
	hang := sealFunc(func(ctx context.Context, _ fence.Claim) error {
		<-ctx.Done()
		return ctx.Err()
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "a", lock.WithSeal(hang))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		acquire(t, l, "a", lock.WithoutWaiting())

		start := time.Now()
		_, err = l.Acquire(t.Context(), "b", lock.WithSeal(hang), lock.WithoutRenewal(), lock.WithTTL(time.Second))
		require.ErrorIs(t, err, lock.ErrLost)
		assert.Equal(t, 990*time.Millisecond, time.Since(start))
	})
}

func TestL18_SealThatPanicsReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		bad := sealFunc(func(context.Context, fence.Claim) error { panic("the seal's") })
		assert.PanicsWithValue(t, "the seal's", func() { _, _ = l.Acquire(t.Context(), "a", lock.WithSeal(bad)) })
		acquire(t, l, "a", lock.WithoutWaiting())
	})
}

func TestL18_SealThatOutlivesTheLeaseHandsOutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithTTL(time.Second), lock.WithoutRenewal())
		late := sealFunc(func(context.Context, fence.Claim) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		_, err := l.Acquire(t.Context(), "a", lock.WithSeal(late))
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

func TestL21_MinHoldOutlastsTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithMinHold(10*time.Second))
		start := time.Now()
		lease := acquire(t, l, "a")
		time.Sleep(3 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		_, err := l.TryAcquire(t.Context(), "a")
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, 7*time.Second, held.RetryAfter)
		acquire(t, l, "a")
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
		assert.Less(t, time.Since(start), 11*time.Second)
	})
}

func TestL21_MinHoldOutlastsExpiryAndShortening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithMinHold(10*time.Second), lock.WithTTL(10*time.Second), lock.WithoutRenewal())
		start := time.Now()
		lease := acquire(t, l, "a")
		err := lease.Renew(t.Context(), 9*time.Second)
		require.ErrorIs(t, err, fence.ErrInvalid)
		require.ErrorContains(t, err, "Renew(9s)")
		require.ErrorIs(t, endOf(lease), lock.ErrLost) // 100 ms early, the margin
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
		synctest.Wait()
		acquire(t, l, "a")
		assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
	})
}

func TestL13_GoroutinesDoNotGrowWithLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, renewals atomic.Int64
		counting := &locktest.Scripted{Driver: memlock.New()}
		counting.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			calls.Add(1)
			renewals.Add(int64(len(rs)))
			return next(ctx, rs)
		}
		l := newLocker(t, counting)
		before := runtime.NumGoroutine()
		const n = 2_000
		leases := make([]*lock.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, l, fmt.Sprint(i))
		}
		time.Sleep(2 * time.Minute)
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+10)
		for _, lease := range leases {
			require.NoError(t, lease.Err())
		}
		assert.GreaterOrEqual(t, renewals.Load(), int64(12*n))
		assert.LessOrEqual(t, renewals.Load(), int64(15*n), "renewed more often than every nine tenths of a third")
		assert.GreaterOrEqual(t, renewals.Load(), 20*calls.Load(), "not sent in batches")
		require.NoError(t, l.Close(t.Context()))
		require.ErrorIs(t, leases[0].Err(), lock.ErrReleased)
		synctest.Wait()
		assert.LessOrEqual(t, runtime.NumGoroutine(), before, "the watch outlives its leases")
	})
}
