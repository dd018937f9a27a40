package lock

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
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/memlock"
)

// renews is a driver that answers each renewal.
type renews func(driver.Renewal) error

func (renews) Features() driver.Features { return driver.Features{} }

func (renews) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, errors.ErrUnsupported
}

func (renews) Release(context.Context, fence.Claim, time.Duration) error { return nil }

func (f renews) Renew(_ context.Context, rs []driver.Renewal) []error {
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = f(r)
	}
	return errs
}

// unwatched puts leases under a watch that a test calls itself.
func unwatched(t *testing.T, d driver.Driver, opts ...Option) (l *Locker, take func(resource string, ttl time.Duration, opts ...Option) *Lease) {
	t.Helper()
	l, err := New(d, opts...)
	require.NoError(t, err)
	l.armed = time.Now().Add(-time.Hour) // so nothing is due before the watch looks
	return l, func(resource string, ttl time.Duration, opts ...Option) *Lease {
		t.Helper()
		c, err := l.defaults.with(append(opts, WithTTL(ttl)))
		require.NoError(t, err)
		le, err := l.lease(t.Context(), fence.Claim{Resource: resource, Token: 1, Holder: uuid.New()}, c, l.clock.Now(), ttl, false)
		require.NoError(t, err)
		return le
	}
}

// TestL13_WhatIsRenewedTogether has leases be due, nearly due, and not to be renewed although their end is near.
func TestL13_WhatIsRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, take := unwatched(t, noDriver{})
		due, nearly, later := take("due", 30*time.Second), take("nearly", 20*time.Second), take("later", 40*time.Second)
		ends, pinned, renewing := take("ends", 11*time.Second, WithoutRenewal()), take("pinned", 30*time.Second), take("renewing", 30*time.Second)
		time.Sleep(10*time.Second + 850*time.Millisecond)
		now := time.Now()
		for le, at := range map[*Lease]time.Duration{due: 0, nearly: 90 * time.Millisecond, later: 110 * time.Millisecond, pinned: 0, renewing: 0} {
			le.renewAt = now.Add(at)
		}
		pinned.renewAt, pinned.deadline = time.Time{}, now.Add(50*time.Millisecond)
		renewing.renewing = true
		for _, le := range []*Lease{due, nearly, later, pinned, renewing} {
			l.leases.moved(le)
		}
		lost, b := l.takeDue()
		assert.Empty(t, lost)
		require.NotNil(t, b)
		assert.ElementsMatch(t, []*Lease{due, nearly}, b.leases)
		assert.Equal(t, nearly.deadline, b.least)
		for _, le := range b.leases {
			assert.True(t, le.renewing)
			assert.Zero(t, le.renewAt)
		}
		assert.True(t, renewing.renewAt.After(now), "it is looked at again")
		assert.Zero(t, ends.renewAt)
		time.Sleep(time.Second)
		lost, _ = l.takeDue()
		assert.ElementsMatch(t, []*Lease{ends, pinned}, lost)
	})
}

func TestL13_EachLeaseOfABatchGetsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, take := unwatched(t, renews(func(r driver.Renewal) error {
			return map[string]error{"lost": driver.ErrLost, "failed": errors.New("broken")}[r.Claim.Resource]
		}))
		leases := map[string]*Lease{}
		for _, name := range []string{"first", "lost", "failed", "last"} {
			leases[name] = take(name, 30*time.Second)
			leases[name].renewAt = time.Now()
		}
		time.Sleep(time.Second)
		l.watch()
		for name, le := range leases {
			assert.Equal(t, name == "lost", errors.Is(le.Err(), ErrLost), name)
			assert.False(t, le.renewing, name)
			left := 29700 * time.Millisecond
			if name == "lost" || name == "failed" {
				left -= time.Second
			}
			assert.Equal(t, left, time.Until(le.Deadline()), name)
		}
		require.NoError(t, l.Close(t.Context()))
	})
}

func TestL13_PatienceIsThatOfTheFirstDeadline(t *testing.T) {
	now := time.Now()
	for _, order := range [][]time.Duration{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}} {
		var b batch
		for _, d := range order {
			b.add(&Lease{deadline: now.Add(d)})
		}
		assert.Equal(t, now.Add(1), b.least)
	}
}

// TestL06_LeaseThatExpiredUnseen has the process stand still: the watch has not run.
func TestL06_LeaseThatExpiredUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses []Event
		l, take := unwatched(t, renews(nil), WithObserver(&Observer{Lost: func(e Event) { losses = append(losses, e) }}))
		late, released, gone := take("a", time.Second), take("b", time.Second), take("c", time.Minute)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, late.Err(), ErrLost)
		require.ErrorIs(t, released.Release(t.Context()), ErrLost, "what has expired is lost, not released")
		require.ErrorIs(t, gone.lose("somebody broke it"), ErrLost)
		for range 3 {
			require.ErrorContains(t, gone.lose(expired), "somebody broke it")
			first, end := gone.finish(ErrReleased)
			require.False(t, first)
			require.ErrorIs(t, end, ErrLost)
			require.ErrorIs(t, gone.Err(), ErrLost)
		}
		synctest.Wait()
		require.Len(t, losses, 3)
		assert.Equal(t, 1010*time.Millisecond, losses[0].Late)
		assert.Equal(t, 1010*time.Millisecond, losses[1].Late)
		assert.Zero(t, losses[2].Late, "it would have gone on")
		require.NoError(t, l.Close(t.Context()))
	})
}

// TestL06_WatchLooksEachSecond has the machine sleep past the end of a lease, and the timers with it.
func TestL06_WatchLooksEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(renews(nil))
		require.NoError(t, err)
		var slept atomic.Int64
		l.clock = newClock(time.Now, func(time.Time) time.Duration { return 0 }, func() (time.Duration, bool) { return time.Duration(slept.Load()), true })
		claim := fence.Claim{Resource: "a", Token: 1, Holder: uuid.New()}
		c, err := l.defaults.with([]Option{WithTTL(time.Hour), WithoutRenewal()})
		require.NoError(t, err)
		le, err := l.lease(t.Context(), claim, c, l.clock.Now(), time.Hour, false)
		require.NoError(t, err)
		time.Sleep(10*time.Second + time.Millisecond)
		slept.Store(int64(2 * time.Hour))
		start := time.Now()
		<-le.Context().Done()
		assert.LessOrEqual(t, time.Since(start), time.Second)
		require.NoError(t, l.Close(t.Context()))
	})
}

// slowly is a driver without a queue that takes its time.
type slowly struct{ driver.Driver }

func (s slowly) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	time.Sleep(600 * time.Millisecond)
	return s.Driver.Acquire(ctx, r)
}

// TestL06_MemberOfASetThatExpiredUnseen is over before the last is in, or later.
func TestL06_MemberOfASetThatExpiredUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := unwatched(t, slowly{memlock.New()}, WithTTL(time.Second), WithoutRenewal())
		_, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		require.ErrorIs(t, err, ErrLost)
		for _, looks := range []bool{true, false} {
			set, err := l.AcquireAll(t.Context(), []string{"c"})
			require.NoError(t, err)
			time.Sleep(time.Second)
			if looks {
				require.ErrorIs(t, set.Err(), ErrLost)
			}
			require.ErrorIs(t, set.Release(t.Context()), ErrLost)
			require.ErrorIs(t, context.Cause(set.Context()), ErrLost)
			require.ErrorIs(t, set.Err(), ErrLost)
			require.NotErrorIs(t, set.Err(), context.Canceled)
		}
		require.NoError(t, l.Close(t.Context()))
	})
}
