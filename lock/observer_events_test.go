package lock_test

import (
	"context"
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

// TestObserver_WhatIsToldOfAnAcquire is for a store without a queue, that answers after 100 ms, fails, or sees its lease
// refused by a guard.
func TestObserver_WhatIsToldOfAnAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			j      journal
			broken atomic.Bool
		)
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			time.Sleep(100 * time.Millisecond)
			if broken.Load() {
				return driver.Grant{}, errBroken
			}
			return next(ctx, r)
		}
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if broken.Load() {
				return errBroken
			}
			return next(ctx, c, keep)
		}
		l := newLocker(t, d, lock.WithObserver(j.observer()), lock.WithTTL(5*time.Second), lock.WithoutRenewal())
		first := acquire(t, l, "a")
		_, events := j.take()
		assert.Equal(t, 100*time.Millisecond, events[0].Waited)
		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, lock.ErrHeld)
		names, events := j.take()
		require.Equal(t, []string{"held"}, names)
		assert.Equal(t, 100*time.Millisecond, events[0].Waited)

		acquire(t, l, "a")
		require.Error(t, first.Err())
		names, events = j.take()
		require.ElementsMatch(t, []string{"waiting", "lost", "acquired"}, names, "of its waiting once")
		require.Equal(t, "waiting", names[0])
		assert.Zero(t, events[0].Waited)

		broken.Store(true)
		_, err = l.TryAcquire(t.Context(), "b")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		names, _ = j.take()
		require.Empty(t, names, "nobody is known to have it")

		broken.Store(false)
		_, err = l.Acquire(t.Context(), "b", lock.WithSeal(sealFunc(func(context.Context, fence.Claim) error { return fence.ErrStale })))
		require.ErrorIs(t, err, fence.ErrStale)
		names, _ = j.take()
		require.Empty(t, names, "it was not handed out")

		kept := acquire(t, l, "b")
		broken.Store(true)
		require.ErrorIs(t, kept.Release(t.Context()), lock.ErrUnavailable)
		broken.Store(false)
		names, events = j.take()
		require.Equal(t, []string{"acquired", "released"}, names)
		require.ErrorIs(t, events[1].Err, errBroken)
	})
}

// TestClose_DropsWhatAnObserverDidNotTake has one be stuck: Close is bounded, and when it is over it is over.
func TestClose_DropsWhatAnObserverDidNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		l := newLocker(t, memlock.New(), lock.WithObserver(&lock.Observer{Released: func(lock.Event) {
			calls.Add(1)
			time.Sleep(time.Minute)
		}}))
		for range 3 {
			require.NoError(t, acquire(t, l, "a").Release(t.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, l.Close(ctx))
		assert.Equal(t, time.Second, time.Since(start))
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 1, calls.Load())
	})
}
