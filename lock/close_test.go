package lock_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
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

// TestClose_FailsNoRenewal has renewals be under way.
func TestClose_FailsNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			time.Sleep(500 * time.Millisecond)
			return next(context.WithoutCancel(ctx), rs)
		}
		var failed atomic.Int32
		l, err := lock.New(d, lock.WithTTL(3*time.Second), lock.WithObserver(&lock.Observer{
			RenewFailed: func(lock.Event) { failed.Add(1) },
		}))
		require.NoError(t, err)
		for i := range 100 {
			acquire(t, l, strconv.Itoa(i))
		}
		time.Sleep(1100 * time.Millisecond)
		require.NoError(t, l.Close(t.Context()))
		time.Sleep(time.Second)
		assert.Zero(t, failed.Load())
	})
}

// TestClose_MeetsEverything has leases begin, be resumed, broken and healed while the Locker closes: for the race
// detector, and to see that nothing is left.
func TestClose_MeetsEverything(t *testing.T) {
	for range 100 {
		store := memlock.New()
		d := locktest.ScriptAll(store)
		other, err := lock.New(d)
		require.NoError(t, err)
		l, err := lock.New(d)
		require.NoError(t, err)
		var heals atomic.Int32
		seal := sealFunc(func(_ context.Context, c fence.Claim) error {
			if heals.Add(1)%2 == 1 {
				return &fence.RejectedError{Claim: c, Mark: c.Token + 5, Verdict: fence.ErrStale}
			}
			return nil
		})
		var wg sync.WaitGroup
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for i, name := range names {
			claim := fence.Claim{}
			if i >= 4 {
				claim = acquire(t, other, name).Detach()
			}
			wg.Go(func() {
				ctx := context.Background()
				switch i {
				case 0, 1:
					_, _ = l.TryAcquire(ctx, name)
				case 2:
					_, _ = l.Acquire(ctx, name, lock.WithSeal(seal))
				case 3:
					_, _ = l.AcquireAll(ctx, []string{name, "x", "y"})
				case 4, 5:
					_, _ = l.Resume(ctx, claim)
				default:
					_, _ = l.Break(ctx, name)
				}
			})
		}
		require.NoError(t, l.Close(t.Context()))
		wg.Wait()
		require.NoError(t, other.Close(t.Context()))
		require.ErrorIs(t, l.Close(t.Context()), lock.ErrClosed)
		for _, name := range append(names[:4], "x", "y") {
			info, err := store.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.False(t, info.Held, name)
		}
	}
}
