package lock_test

import (
	"context"
	"math/rand/v2"
	"slices"
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

func TestAcquireAll(t *testing.T) {
	l := newLocker(t, memlock.New())
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	set, err := l.AcquireAll(ctx, []string{"b", "a", "c", "a"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, set.Err())
	require.NoError(t, set.Context().Err())
	assert.Equal(t, "value", set.Context().Value(key{}))
	claims := set.Claims()
	require.Len(t, claims, 3)
	for i, name := range []string{"a", "b", "c"} {
		assert.Equal(t, name, claims[i].Resource)
		_, err := l.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, lock.ErrHeld)
	}
	assert.Equal(t, claims, fence.Claims(set.Context()))
	assert.WithinDuration(t, time.Now().Add(29*time.Second), set.Deadline(), 2*time.Second)

	require.NoError(t, set.Release(ctx))
	require.ErrorIs(t, set.Release(ctx), lock.ErrReleased)
	require.ErrorIs(t, set.Err(), lock.ErrReleased)
	require.ErrorIs(t, context.Cause(set.Context()), lock.ErrReleased)
	require.ErrorIs(t, context.Cause(set.Context()), context.Canceled)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, acquire(t, l, name, lock.WithoutWaiting()).Release(t.Context()))
	}
}

func TestAcquireAll_AllOrNone(t *testing.T) {
	d := &locktest.Scripted{Driver: memlock.New()}
	var sent []string
	d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
		sent = append(sent, r.Resource)
		return next(ctx, r)
	}
	l := newLocker(t, d)
	held := acquire(t, l, "b")
	sent = nil
	_, err := l.AcquireAll(t.Context(), []string{"c", "b", "a"}, lock.WithoutWaiting())
	var other *lock.HeldError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, "b", other.Resource)
	assert.Equal(t, []string{"a", "b"}, sent)
	require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
	require.NoError(t, held.Err())

	sent = nil
	for _, bad := range [][]string{nil, {}, {"a", ""}, {"a", "b\n"}} {
		_, err := l.AcquireAll(t.Context(), bad)
		require.ErrorIs(t, err, fence.ErrInvalid)
	}
	_, err = l.AcquireAll(t.Context(), []string{"a"}, lock.WithTTL(0))
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.Empty(t, sent)
}

// TestAcquireAll_LostMember ends one lease in the store: the set ends, and the others are free.
func TestAcquireAll_LostMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		set, err := l.AcquireAll(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		_, err = l.Break(t.Context(), "b")
		require.NoError(t, err)
		<-set.Context().Done()
		require.ErrorIs(t, context.Cause(set.Context()), lock.ErrLost)
		require.ErrorIs(t, set.Err(), lock.ErrLost)
		require.ErrorContains(t, set.Err(), `"b"`)
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, acquire(t, l, name, lock.WithoutWaiting()).Release(t.Context()))
		}
		require.ErrorIs(t, set.Release(t.Context()), lock.ErrLost)
		require.ErrorIs(t, set.Release(t.Context()), lock.ErrReleased)
	})
}

// TestAcquireAll_LossWhileWaiting loses a member while the set waits for the next.
func TestAcquireAll_LossWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		held := acquire(t, l, "b")
		failed := make(chan error)
		go func() {
			_, err := l.AcquireAll(t.Context(), []string{"a", "b"})
			failed <- err
		}()
		synctest.Wait()
		_, err := l.Break(t.Context(), "a")
		require.NoError(t, err)
		err = <-failed
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, context.Canceled)
		synctest.Wait()
		assert.Zero(t, waiters(t, l, "b"))
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
	})
}

func TestAcquireAll_CloseEndsTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		l := newLocker(t, d)
		set, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		require.NoError(t, l.Close(t.Context()))
		require.ErrorIs(t, set.Err(), lock.ErrReleased)
		other := newLocker(t, d)
		again, err := other.AcquireAll(t.Context(), []string{"a", "b"}, lock.WithoutWaiting())
		require.NoError(t, err)
		require.NoError(t, again.Release(t.Context()))
	})
}

// TestAcquireAll_OverlappingSetsDoNotDeadlock has many sets with members in any order.
func TestAcquireAll_OverlappingSetsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		var (
			wg     sync.WaitGroup
			inside [5]atomic.Int32
		)
		for range 8 {
			l := newLocker(t, d)
			wg.Go(func() {
				for range 30 {
					var names []string
					for _, i := range rand.Perm(len(inside))[:3] {
						names = append(names, strconv.Itoa(i))
					}
					set, err := l.AcquireAll(t.Context(), names)
					if !assert.NoError(t, err) {
						return
					}
					for _, c := range set.Claims() {
						i, _ := strconv.Atoi(c.Resource)
						assert.EqualValues(t, 1, inside[i].Add(1), "two holders of %d", i)
					}
					time.Sleep(time.Millisecond)
					for _, c := range set.Claims() {
						i, _ := strconv.Atoi(c.Resource)
						inside[i].Add(-1)
					}
					assert.NoError(t, set.Release(t.Context()))
				}
			})
		}
		wg.Wait()
	})
}

func TestAcquireAll_FailureSkipsTheMinHold(t *testing.T) {
	l := newLocker(t, memlock.New())
	held := acquire(t, l, "b")
	_, err := l.AcquireAll(t.Context(), []string{"a", "b"}, lock.WithoutWaiting(), lock.WithMinHold(20*time.Second))
	require.ErrorIs(t, err, lock.ErrHeld)
	info, err := l.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.False(t, info.Held, "no job has run")
	require.NoError(t, held.Release(t.Context()))
}

// TestAcquireAll_CloseEndsAllMembersInOneWay has many, so that the end of the first could end the others in another.
func TestAcquireAll_CloseEndsAllMembersInOneWay(t *testing.T) {
	var names []string
	for i := range 60 {
		names = append(names, strconv.Itoa(i))
	}
	for range 20 {
		d := memlock.New()
		var lost, released atomic.Int32
		l, err := lock.New(d, lock.WithTTL(time.Hour), lock.WithObserver(&lock.Observer{
			Lost: func(lock.Event) { lost.Add(1) }, Released: func(lock.Event) { released.Add(1) },
		}))
		require.NoError(t, err)
		set, err := l.AcquireAll(t.Context(), names)
		require.NoError(t, err)
		require.NoError(t, l.Close(t.Context()))
		assert.Zero(t, lost.Load())
		assert.EqualValues(t, len(names), released.Load())
		err = set.Release(t.Context())
		require.NotErrorIs(t, err, lock.ErrLost)
		other := newLocker(t, d)
		for _, name := range names {
			info, err := other.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.False(t, info.Held)
		}
	}
}

func TestAcquireAll_ObserverHearsOfEachMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		l := newLocker(t, memlock.New(), lock.WithObserver(j.observer()))
		held := acquire(t, l, "c")
		j.take()
		_, err := l.AcquireAll(t.Context(), []string{"a", "b", "c"}, lock.WithoutWaiting())
		require.ErrorIs(t, err, lock.ErrHeld)
		names, _ := j.take()
		assert.Equal(t, []string{"held"}, names, "nothing was handed out")
		require.NoError(t, held.Release(t.Context()))
		set, err := l.AcquireAll(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		_, err = l.Break(t.Context(), "b")
		require.NoError(t, err)
		<-set.Context().Done()
		synctest.Wait()
		require.ErrorIs(t, set.Release(t.Context()), lock.ErrLost)
		names, _ = j.take()
		names = slices.DeleteFunc(names, func(name string) bool { return name == "renewed" })
		assert.ElementsMatch(t, []string{"released", "acquired", "acquired", "acquired", "broken", "lost", "lost", "lost"}, names)
	})
}
