package lock_test

import (
	"context"
	"fmt"
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

func TestClose_EndsWaitingAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		l := newLocker(t, store)
		lease := acquire(t, l, "a")
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "a")
			waiting <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, l.Close(t.Context()))
		require.ErrorIs(t, <-waiting, lock.ErrClosed)
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrReleased)
		require.ErrorIs(t, lease.Err(), lock.ErrClosed)
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrReleased)
		_, err := l.Acquire(t.Context(), "b")
		require.ErrorIs(t, err, lock.ErrClosed)
		require.ErrorIs(t, l.Close(t.Context()), lock.ErrClosed)
		acquire(t, newLocker(t, store), "a", lock.WithoutWaiting())
	})
}

func TestClose_EndsWhatAnAcquireInFlightMayHaveWon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		slow := &locktest.Scripted{Driver: store}
		slow.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			time.Sleep(time.Second)
			return g, err
		}
		l := newLocker(t, slow)
		failed := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "a")
			failed <- err
		}()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, l.Close(t.Context()))
		require.ErrorIs(t, <-failed, lock.ErrClosed)
		acquire(t, newLocker(t, store), "a", lock.WithoutWaiting())
		time.Sleep(time.Second) // the deaf call ends by itself
	})
}

func TestClose_DoesNotWaitForAHungRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &locktest.Scripted{Driver: memlock.New()}
		deaf.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			<-ctx.Done()
			return next(ctx, rs)
		}
		l := newLocker(t, deaf, lock.WithTTL(time.Hour), lock.WithRenewEvery(time.Minute))
		acquire(t, l, "a")
		time.Sleep(2 * time.Minute)
		start := time.Now()
		require.NoError(t, l.Close(t.Context()))
		assert.Zero(t, time.Since(start))
	})
}

func TestClose_IsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unblock := make(chan struct{})
		defer close(unblock)
		deaf := &locktest.Scripted{Driver: memlock.New()}
		deaf.OnRelease = func(context.Context, fence.Claim, time.Duration, locktest.ReleaseFunc) error {
			<-unblock
			return errBroken
		}
		l := newLocker(t, deaf)
		for i := range 100 {
			acquire(t, l, fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, l.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
	})
}
