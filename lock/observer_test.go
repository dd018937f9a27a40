package lock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
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

// journal is an Observer that keeps what it is told.
type journal struct {
	mu     sync.Mutex
	events []told
}

type told struct {
	name string
	lock.Event
}

func (j *journal) observer() *lock.Observer {
	write := func(name string) func(lock.Event) {
		return func(e lock.Event) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.events = append(j.events, told{name, e})
		}
	}
	return &lock.Observer{
		Acquired: write("acquired"), Waiting: write("waiting"), Held: write("held"), Renewed: write("renewed"),
		RenewFailed: write("renew failed"), Lost: write("lost"), Released: write("released"), Broken: write("broken"),
	}
}

// take returns what was told since the last time.
func (j *journal) take() (names []string, events []told) {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	events, j.events = j.events, nil
	for _, e := range events {
		names = append(names, e.name)
	}
	return names, events
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			j    journal
			fail bool
		)
		d := locktest.ScriptAll(memlock.New())
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if fail {
				return []error{errBroken}
			}
			return next(ctx, rs)
		}
		l := newLocker(t, d, lock.WithObserver(j.observer()), lock.WithTTL(10*time.Second), lock.WithRenewEvery(6*time.Second))
		first := acquire(t, l, "a")
		names, events := j.take()
		require.Equal(t, []string{"acquired"}, names)
		assert.Equal(t, first.Claim(), events[0].Claim)
		assert.Equal(t, first.Deadline(), events[0].Deadline)
		assert.Equal(t, time.Now(), events[0].At)

		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, lock.ErrHeld)
		names, events = j.take()
		require.Equal(t, []string{"held"}, names)
		assert.Equal(t, "a", events[0].Claim.Resource)
		assert.Zero(t, events[0].Claim.Token)
		require.ErrorIs(t, events[0].Err, lock.ErrHeld)

		_, next := queue(t, 1, "a", l)
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Release(t.Context()))
		second := next()
		names, events = j.take()
		require.ElementsMatch(t, []string{"waiting", "released", "acquired"}, names)
		require.Equal(t, "waiting", names[0])
		assert.Equal(t, "a", events[0].Claim.Resource)
		for _, e := range events[1:] { // the next may be in before the one before knows that it is out
			require.NoError(t, e.Err)
			if e.name == "released" {
				assert.Equal(t, first.Claim(), e.Claim)
			} else {
				assert.Equal(t, second.Claim(), e.Claim)
				assert.Equal(t, 3*time.Second, e.Waited)
			}
		}

		time.Sleep(6500 * time.Millisecond)
		names, events = j.take()
		require.Equal(t, []string{"renewed"}, names)
		assert.Equal(t, second.Deadline(), events[0].Deadline)

		fail = true
		require.ErrorIs(t, second.Renew(t.Context(), 20*time.Second), lock.ErrUnavailable)
		names, events = j.take()
		require.Equal(t, []string{"renew failed"}, names)
		require.ErrorIs(t, events[0].Err, errBroken)
		require.ErrorIs(t, endOf(second), lock.ErrLost)
		names, events = j.take()
		require.Equal(t, "lost", names[len(names)-1])
		lost := events[len(events)-1]
		assert.Equal(t, second.Claim(), lost.Claim)
		assert.Zero(t, lost.Late)
		require.ErrorIs(t, lost.Err, lock.ErrLost)

		fail = false
		time.Sleep(10 * time.Second)
		third := acquire(t, l, "a")
		claim, err := l.Break(t.Context(), "a")
		require.NoError(t, err)
		names, events = j.take()
		require.Equal(t, []string{"acquired", "broken"}, names)
		assert.Equal(t, claim, events[1].Claim)
		require.ErrorIs(t, endOf(third), lock.ErrLost)
	})
}

// TestObserver_CanNotHoldUpTheLock has one that blocks, panics, ends its goroutine and uses the lock.
func TestObserver_CanNotHoldUpTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			l     *lock.Locker
			calls int
		)
		l = newLocker(t, memlock.New(), lock.WithObserver(&lock.Observer{Acquired: func(lock.Event) {
			calls++
			switch calls {
			case 1:
				time.Sleep(30 * time.Second)
				panic("an observer's")
			case 2:
				runtime.Goexit()
			case 3:
				_, err := l.TryAcquire(context.Background(), "a")
				assert.True(t, err == nil || errors.Is(err, lock.ErrHeld))
			}
		}}))
		start := time.Now()
		for range 10_000 {
			require.NoError(t, acquire(t, l, "a").Release(t.Context()))
		}
		assert.Zero(t, time.Since(start))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.GreaterOrEqual(t, calls, 4000)
		assert.Less(t, calls, 10_000, "what is too much is dropped")
	})
}

// TestObserver_MayClose has a program end when it loses its lease.
func TestObserver_MayClose(t *testing.T) {
	var l *lock.Locker
	closed := make(chan error, 1)
	l, err := lock.New(memlock.New(), lock.WithTTL(20*time.Millisecond), lock.WithoutRenewal(), lock.WithObserver(&lock.Observer{
		Lost: func(lock.Event) { closed <- l.Close(context.Background()) },
	}))
	require.NoError(t, err)
	acquire(t, l, "a")
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "Close waits for its caller")
	}
}

func TestObserver_BrokenTellsTheClaimThatSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		l := newLocker(t, memlock.New(), lock.WithObserver(j.observer()))
		tries := 0
		claim, err := l.Break(t.Context(), "a", lock.WithSeal(sealFunc(func(_ context.Context, c fence.Claim) error {
			if tries++; tries == 1 {
				return &fence.RejectedError{Claim: c, Mark: c.Token + 500, Verdict: fence.ErrStale}
			}
			return nil
		})))
		require.NoError(t, err)
		names, events := j.take()
		require.Equal(t, []string{"broken"}, names)
		assert.Equal(t, claim, events[0].Claim)

		_, err = l.Break(t.Context(), "a", lock.WithSeal(sealFunc(func(context.Context, fence.Claim) error { return errBroken })))
		require.ErrorIs(t, err, errBroken)
		names, _ = j.take()
		assert.Equal(t, []string{"broken"}, names, "it was, though the seal failed")
	})
}
