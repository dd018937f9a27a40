package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// queue starts acquires that stand in line one behind the other, by turns on the Lockers, and sends the number of each
// that got its lease.
func queue(t *testing.T, n int, resource string, lockers ...*lock.Locker) (<-chan int, func() *lock.Lease) {
	t.Helper()
	order := make(chan int, n)
	leases := make(chan *lock.Lease, n)
	for i := range n {
		before := waiters(t, lockers[0], resource)
		go func() {
			lease, err := lockers[i%len(lockers)].Acquire(t.Context(), resource)
			assert.NoError(t, err)
			order <- i
			leases <- lease
		}()
		synctest.Wait()
		require.Equal(t, before+1, waiters(t, lockers[0], resource))
	}
	return order, func() *lock.Lease { return <-leases }
}

func waiters(t *testing.T, l *lock.Locker, resource string) int {
	t.Helper()
	info, err := l.Inspect(t.Context(), resource)
	require.NoError(t, err)
	return info.Waiters
}

func TestL10_FirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		a, b := newLocker(t, d), newLocker(t, d)
		held := acquire(t, a, "r")
		order, next := queue(t, 10, "r", a, b)
		start := time.Now()
		for i := range 10 {
			require.NoError(t, held.Release(t.Context()))
			held = next()
			require.Equal(t, i, <-order)
			_, err := b.TryAcquire(t.Context(), "r")
			require.ErrorIs(t, err, lock.ErrHeld)
		}
		require.NoError(t, held.Release(t.Context()))
		assert.Zero(t, time.Since(start), "each was told of its turn at once")
		require.NoError(t, acquire(t, a, "r").Release(t.Context()))
	})
}

func TestL10_TryAcquireNeverJumpsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			return next(ctx, listener, ready, func(said driver.Turn) {
				time.AfterFunc(100*time.Millisecond, func() { turn(said) }) // a slow network
			})
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		order, next := queue(t, 1, "r", l)
		require.NoError(t, held.Release(t.Context()))
		_, err := l.TryAcquire(t.Context(), "r")
		require.ErrorIs(t, err, lock.ErrHeld)
		require.Empty(t, order)
		require.NoError(t, next().Release(t.Context()))
	})
}

// TestL11_DeadWaiters has some stand in line that nobody serves any more.
func TestL11_DeadWaiters(t *testing.T) {
	for _, end := range []string{"release", "expiry"} {
		for dead := range 4 {
			t.Run(fmt.Sprintf("%d before a %s", dead, end), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := memlock.New()
					l := newLocker(t, d)
					held := acquire(t, l, "r", lock.WithTTL(2*time.Second), lock.WithoutRenewal())
					time.Sleep(1500 * time.Millisecond)
					for range dead {
						die(t, d, "r")
					}
					_, next := queue(t, 1, "r", l)
					free := time.Now()
					if end == "release" {
						require.NoError(t, held.Release(t.Context()))
					} else {
						free = free.Add(500 * time.Millisecond)
					}
					require.NoError(t, next().Release(t.Context()))
					assert.LessOrEqual(t, time.Since(free), max(time.Duration(dead)*300*time.Millisecond, 20*time.Millisecond))
				})
			})
		}
	}
}

// TestL11_DeadHeadFoundByAnother has somebody other than the second find the resource free, in the middle of the first's
// turn that nobody gave it.
func TestL11_DeadHeadFoundByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		l := newLocker(t, d)
		acquire(t, l, "r", lock.WithTTL(time.Second), lock.WithoutRenewal())
		free := time.Now().Add(time.Second)
		die(t, d, "r")
		_, next := queue(t, 1, "r", l)
		r := driver.Request{Resource: "r", Holder: uuid.New(), TTL: time.Second}
		_, err := d.Wait(t.Context(), r, driver.Place{Listener: uuid.New()})
		var queued *driver.Queued
		require.ErrorAs(t, err, &queued)
		time.Sleep(time.Until(free.Add(200 * time.Millisecond)))
		_, err = d.Wait(t.Context(), r, driver.Place{Listener: uuid.New(), Ticket: queued.Ticket, Overdue: 200 * time.Millisecond})
		require.ErrorAs(t, err, &queued)
		require.NoError(t, next().Release(t.Context()))
		assert.LessOrEqual(t, time.Since(free), 300*time.Millisecond)
	})
}

// TestL10_OldNewsPassesOverNobody has the store be silent for some time, with all in line, and the lease end meanwhile.
func TestL10_OldNewsPassesOverNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var silent atomic.Bool
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			if silent.Load() {
				return driver.Grant{}, errBroken
			}
			if p.Ticket == 0 {
				return next(ctx, r, p)
			}
			assert.Less(t, p.Overdue, 2*time.Second)
			return next(ctx, r, p)
		}
		l := newLocker(t, d, lock.WithRetryFor(time.Hour))
		acquire(t, l, "r", lock.WithTTL(3*time.Second), lock.WithoutRenewal())
		_, next := queue(t, 3, "r", l)
		silent.Store(true)
		time.Sleep(30 * time.Second)
		silent.Store(false)
		for range 3 {
			require.NoError(t, next().Release(t.Context()))
		}
	})
}

// die stands in line and is never heard of again.
func die(t *testing.T, d driver.Waiter, resource string) {
	t.Helper()
	r := driver.Request{Resource: resource, Holder: uuid.New(), TTL: time.Second}
	_, err := d.Wait(t.Context(), r, driver.Place{Listener: uuid.New()})
	var queued *driver.Queued
	require.ErrorAs(t, err, &queued)
}

func TestL11_WhoGivesUpLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "r")
			failed <- err
		}()
		synctest.Wait()
		_, next := queue(t, 1, "r", l)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		synctest.Wait()
		require.Equal(t, 1, waiters(t, l, "r"))
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		assert.Zero(t, time.Since(start))
	})
}

// TestL11_TurnOfOneWhoGivesUpGoesOn has the turn and the cancellation come together.
func TestL11_TurnOfOneWhoGivesUpGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		ctx, cancel := context.WithCancel(t.Context())
		waits := 0
		d.OnWait = func(c context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			if r.Label == "gives up" {
				if waits++; waits == 2 { // it was told of its turn
					cancel()
					return driver.Grant{}, context.Canceled
				}
			}
			return next(c, r, p)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		failed := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "r", lock.WithLabel("gives up"))
			failed <- err
		}()
		synctest.Wait()
		_, next := queue(t, 1, "r", l)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.ErrorIs(t, <-failed, context.Canceled)
		require.NoError(t, next().Release(t.Context()))
		assert.Zero(t, time.Since(start))
	})
}

// TestL12_LostMessagesCostASecond has nothing told at all, on a subscription that looks whole.
func TestL12_LostMessagesCostASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), _ func(driver.Turn), next locktest.ListenFunc) error {
			return next(ctx, listener, ready, func(driver.Turn) {})
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		_, next := queue(t, 1, "r", l)
		time.Sleep(10 * time.Second)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		assert.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// TestL12_C25_ReleaseBeforeTheSubscription has the release come between the failed try and the subscription.
func TestL12_C25_ReleaseBeforeTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		subscribe := make(chan struct{})
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			<-subscribe
			return next(ctx, listener, ready, turn)
		}
		l := newLocker(t, d, lock.WithTTL(time.Minute))
		held := acquire(t, l, "r")
		_, next := queue(t, 1, "r", l)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		close(subscribe)
		require.NoError(t, next().Release(t.Context()))
		assert.Less(t, time.Since(start), 250*time.Millisecond)
	})
}

// TestL12_WithoutASubscription has it fail for a time: the first in line polls, and is told again after that.
func TestL12_WithoutASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var up atomic.Bool
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			if !up.Load() {
				return errors.New("no subscription")
			}
			return next(ctx, listener, ready, turn)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		order, next := queue(t, 3, "r", l)
		time.Sleep(30 * time.Second)
		for i := range 2 {
			start := time.Now()
			require.NoError(t, held.Release(t.Context()))
			held = next()
			require.Equal(t, i, <-order)
			assert.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
			time.Sleep(500 * time.Millisecond)
		}
		up.Store(true)
		time.Sleep(2 * time.Second)
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		assert.Zero(t, time.Since(start))
	})
}

// TestL12_IdleWaitersAskOnceASecond counts for a minute, with the lease renewed all the time.
func TestL12_C26_IdleWaitersAskOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var waits, acquires, listens atomic.Int32
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			waits.Add(1)
			return next(ctx, r, p)
		}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			acquires.Add(1)
			return next(ctx, r)
		}
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			listens.Add(1)
			return next(ctx, listener, ready, turn)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		other := acquire(t, l, "s")
		_, next := queue(t, 50, "r", l)
		_, nextOther := queue(t, 1, "s", l)
		time.Sleep(1500 * time.Millisecond) // the polls after the subscription, and away from those on the second
		waits.Store(0)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, waits.Load(), int32(51*60))
		assert.GreaterOrEqual(t, waits.Load(), int32(51*59))
		assert.Zero(t, acquires.Load())
		assert.EqualValues(t, 1, listens.Load(), "one subscription for all resources")

		waits.Store(0)
		require.NoError(t, held.Release(t.Context()))
		held = next()
		assert.EqualValues(t, 1, waits.Load(), "only the first tries at a release")
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, nextOther().Release(t.Context()))
		for range 49 {
			require.NoError(t, held.Release(t.Context()))
			held = next()
		}
		require.NoError(t, held.Release(t.Context()))
	})
}

// TestL04_LostAnswerInLineKeepsThePlace loses the answer to the first Wait, with what it did.
func TestL04_LostAnswerInLineKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var (
			mu      sync.Mutex
			tickets []int64
			holders = map[uuid.UUID]bool{}
			left    = map[uuid.UUID]bool{}
		)
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			g, err := next(ctx, r, p)
			if r.Label != "unlucky" {
				return g, err
			}
			mu.Lock()
			defer mu.Unlock()
			for holder := range holders {
				assert.True(t, holder == r.Holder || left[holder], "a holder in doubt was not given up")
			}
			holders[r.Holder] = true
			tickets = append(tickets, p.Ticket)
			if len(tickets) == 2 {
				return driver.Grant{}, errBroken
			}
			return g, err
		}
		d.OnLeave = func(ctx context.Context, resource string, holder, listener uuid.UUID, next locktest.LeaveFunc) error {
			mu.Lock()
			left[holder] = true
			mu.Unlock()
			return next(ctx, resource, holder, listener)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		unlucky := make(chan *lock.Lease)
		go func() {
			lease, err := l.Acquire(t.Context(), "r", lock.WithLabel("unlucky"))
			assert.NoError(t, err)
			unlucky <- lease
		}()
		synctest.Wait()
		_, next := queue(t, 1, "r", l)
		time.Sleep(10 * time.Second)
		require.NoError(t, held.Release(t.Context()))
		lease := <-unlucky
		require.Len(t, holders, 2)
		assert.NotContains(t, tickets[1:], int64(0))
		assert.True(t, holders[lease.Claim().Holder])
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
	})
}

func TestL12_SubscriptionEndsSomeTimeAfterTheLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var open, opened atomic.Int32
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			opened.Add(1)
			open.Add(1)
			defer open.Add(-1)
			return next(ctx, listener, ready, turn)
		}
		l := newLocker(t, d)
		for round := range 3 {
			held := acquire(t, l, "r")
			for range 5 {
				_, next := queue(t, 1, "r", l)
				require.EqualValues(t, 1, open.Load())
				require.NoError(t, held.Release(t.Context()))
				held = next()
				time.Sleep(5 * time.Second)
			}
			assert.EqualValues(t, round+1, opened.Load())
			time.Sleep(6 * time.Second)
			assert.Zero(t, open.Load())
			require.NoError(t, held.Release(t.Context()))
		}
		acquire(t, l, "r")
		queueThenClose(t, l)
		assert.Zero(t, open.Load())
	})
}

func queueThenClose(t *testing.T, l *lock.Locker) {
	t.Helper()
	failed := make(chan error)
	go func() {
		_, err := l.Acquire(t.Context(), "r")
		failed <- err
	}()
	synctest.Wait()
	require.NoError(t, l.Close(t.Context()))
	require.ErrorIs(t, <-failed, lock.ErrClosed)
}

// TestL12_C25_ReleaseBeforeTheAnswer has the turn be given before the subscription is up, and the answer that gives the
// place come after.
func TestL12_C25_ReleaseBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		d := locktest.ScriptAll(store)
		subscribe, answer := make(chan struct{}), make(chan struct{})
		var waits atomic.Int32
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			<-subscribe
			return next(ctx, listener, ready, turn)
		}
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			g, err := next(ctx, r, p)
			if r.Resource == "r" && waits.Add(1) == 1 {
				<-answer
			}
			return g, err
		}
		l, other := newLocker(t, d), newLocker(t, store)
		first, held := acquire(t, other, "x"), acquire(t, other, "r")
		_, nextFirst := queue(t, 1, "x", l) // starts the subscription
		_, next := queue(t, 1, "r", l)
		require.NoError(t, held.Release(t.Context())) // told to nobody
		start := time.Now()
		close(subscribe)
		synctest.Wait()
		close(answer)
		require.NoError(t, next().Release(t.Context()))
		assert.Less(t, time.Since(start), 250*time.Millisecond)
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, nextFirst().Release(t.Context()))
	})
}

// TestL10_ShortLeaseThatIsRenewed has the end that the second knows be older news than what the first knows.
func TestL10_ShortLeaseThatIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		l := newLocker(t, d)
		start := time.Now()
		at := func(after time.Duration) { time.Sleep(time.Until(start.Add(after))) }
		r := driver.Request{Resource: "r", Holder: uuid.New(), TTL: 100 * time.Millisecond}
		g, err := d.Acquire(t.Context(), r)
		require.NoError(t, err)
		claim := fence.Claim{Resource: "r", Token: g.Token, Holder: r.Holder}
		at(10 * time.Millisecond)
		order, next := queue(t, 2, "r", l)
		for _, after := range []time.Duration{50, 140, 230, 252} {
			at(after * time.Millisecond)
			require.NoError(t, d.Renew(t.Context(), []driver.Renewal{{Claim: claim, TTL: r.TTL}})[0])
		}
		for i := range 2 {
			require.Equal(t, i, <-order)
			require.NoError(t, next().Release(t.Context()))
		}
	})
}

// TestAnswersWithoutSense has drivers that say what they may not.
func TestAnswersWithoutSense(t *testing.T) {
	for name, q := range map[string]*driver.Queued{
		"negative place": {Ticket: 1, Ahead: -1000, RetryAfter: time.Second},
		"endless line":   {Ticket: 1, Ahead: 1 << 40, RetryAfter: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := locktest.ScriptAll(memlock.New())
				var waits atomic.Int32
				d.OnWait = func(context.Context, driver.Request, driver.Place, locktest.WaitFunc) (driver.Grant, error) {
					waits.Add(1)
					return driver.Grant{}, q
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := newLocker(t, d).Acquire(ctx, "r")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.LessOrEqual(t, waits.Load(), int32(15))
			})
		})
	}
	t.Run("hardly held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &locktest.Scripted{Driver: memlock.New()}
			var tries atomic.Int32
			d.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
				tries.Add(1)
				return driver.Grant{}, &driver.Held{RetryAfter: 1}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := newLocker(t, d).Acquire(ctx, "r")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.LessOrEqual(t, tries.Load(), int32(250))
		})
	})
	t.Run("queued without a queue", func(t *testing.T) {
		for _, d := range []driver.Driver{queuedAtOnce(&locktest.Scripted{Driver: memlock.New()}), queuedAtOnceAll()} {
			_, err := newLocker(t, d).TryAcquire(t.Context(), "r")
			require.ErrorIs(t, err, lock.ErrUnavailable)
		}
	})
}

func queuedAtOnce(s *locktest.Scripted) *locktest.Scripted {
	s.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
		return driver.Grant{}, &driver.Queued{Ticket: 1}
	}
	return s
}

func queuedAtOnceAll() driver.Driver {
	d := locktest.ScriptAll(memlock.New())
	queuedAtOnce(&d.Scripted)
	return d
}
