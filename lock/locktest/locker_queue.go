package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
)

// lockerQueueCases are what package lock makes of a driver that keeps a line.
func lockerQueueCases() []testCase {
	return []testCase{
		{"Locker/L12_AnIdleWaiterAsksOnceASecond", timed((*suite).anIdleWaiterAsksOnceASecond)},
		{"Locker/L10_FirstComeFirstServed", timed((*suite).lockersAreServedInOrder)},
		{"Locker/L10_TryNeverJumpsTheLine", (*suite).tryAcquireNeverJumpsTheLine},
		{"Locker/L04_WhoGivesUpLeavesAtOnce", timed((*suite).whoGivesUpLeavesAtOnce)},
		{"Locker/L11_TheDeadCostATurnAfterARelease", timed((*suite).theDeadCostATurnAfterARelease)},
		{"Locker/L11_TheDeadCostATurnAfterAnExpiry", timed((*suite).theDeadCostATurnAfterAnExpiry)},
		{"Locker/L21_MinHoldHoldsTheLine", (*suite).minHoldHoldsTheLine},
		{"Locker/C25_NoReleaseGoesUnnoticed", timed((*suite).noReleaseGoesUnnoticed)},
		{"Locker/C26_AReleaseWakesOne", timed((*suite).aReleaseWakesOne)},
	}
}

// deadCost is what a dead waiter may cost: 300 ms by the rule, and what a busy machine makes of it. Two
// turns are more, and so is the second between polls.
const deadCost = 450 * time.Millisecond

func (s *suite) lockersAreServedInOrder() {
	const n = 10
	d := s.watched()
	lockers := []*lock.Locker{s.lockerOn(d), s.lockerOn(d)}
	first, err := lockers[0].Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	var (
		order []int
		all   sync.WaitGroup
		last  = first.Token()
	)
	for i := range n {
		a := s.inLine(s.ctx, lockers[i%2], d)
		all.Go(func() {
			lease := <-a.lease
			if !assert.NoError(s, a.err) {
				return
			}
			order = append(order, i) // one holds at a time
			assert.Greater(s, lease.Token(), last)
			last = lease.Token()
			assert.NoError(s, lease.Release(s.ctx))
		})
	}
	assert.NoError(s, first.Release(s.ctx))
	all.Wait()
	assert.IsIncreasing(s, order)
	assert.Len(s, order, n)
}

// tryAcquireNeverJumpsTheLine tries all the time, over a release and an expiry.
func (s *suite) tryAcquireNeverJumpsTheLine() {
	d := s.watched()
	waiting, trying := s.lockerOn(d), s.lockerOn(s.d)
	first := s.acquire(s.resource, s.long)
	var (
		as      = []*acquiring{s.inLine(s.ctx, waiting, d), s.inLine(s.ctx, waiting, d)}
		ended   = make(chan struct{})
		tries   sync.WaitGroup
		endTry  = sync.OnceFunc(func() { close(ended) })
		oneTry  = make(chan struct{}, 1)
		tellTry = func() {
			select {
			case oneTry <- struct{}{}:
			default:
			}
		}
	)
	tries.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			lease, err := trying.TryAcquire(s.ctx, s.resource)
			if !assert.ErrorIs(s, err, lock.ErrHeld) {
				if err == nil {
					assert.NoError(s, lease.Release(s.ctx))
				}
				return
			}
			tellTry()
		}
	})
	defer tries.Wait()
	defer endTry()
	<-oneTry
	s.release(first)
	lease := s.requireLease(as[0])
	assert.Greater(s, lease.Token(), first.Token)
	claim := lease.Detach()
	require.NoError(s, s.renew(claim, s.short, true))
	assert.Greater(s, s.requireLease(as[1]).Token(), claim.Token)
}

func (s *suite) whoGivesUpLeavesAtOnce() {
	d := s.watched()
	l := s.lockerOn(d)
	first := s.acquire(s.resource, s.long)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	impatient, next := s.inLine(ctx, l, d), s.inLine(s.ctx, l, d)
	last := s.waiter()
	last.requireQueued(2)
	gaveUp := time.Now()
	cancel()
	s.end(impatient)
	require.ErrorIs(s, impatient.err, context.Canceled)
	for ahead := 2; ahead > 1; {
		_, err := last.wait(0)
		var queued *driver.Queued
		require.True(s, errors.As(err, &queued), "%v", err)
		ahead = queued.Ahead
		s.pass(10 * time.Millisecond)
	}
	assert.Less(s, time.Since(gaveUp), time.Second, "its place is there still")
	released := time.Now()
	s.release(first)
	lease := s.requireWithin(driver.TurnFor, released, next)
	require.NoError(s, lease.Release(s.ctx))
}

func (s *suite) theDeadCostATurnAfterARelease() {
	d := s.watched()
	l := s.lockerOn(d)
	first := s.acquire(s.resource, s.long)
	s.line(1)
	a := s.inLine(s.ctx, l, d)
	s.settle()
	released := time.Now()
	s.release(first)
	s.requireWithin(deadCost, released, a)
}

func (s *suite) theDeadCostATurnAfterAnExpiry() {
	d := s.watched()
	l := s.lockerOn(d)
	g, err := s.d.Acquire(s.ctx, request(s.resource, s.waiter().holder, max(s.short, 500*time.Millisecond))) // its end is between polls
	require.NoError(s, err)
	end := time.Now().Add(g.TTL)
	s.line(2)
	a := s.inLine(s.ctx, l, d)
	s.requireWithin(deadCost+300*time.Millisecond, end, a)
}

func (s *suite) anIdleWaiterAsksOnceASecond() {
	d := s.watched()
	l := s.lockerOn(d)
	first := s.acquire(s.resource, s.long)
	a := s.inLine(s.ctx, l, d)
	s.settle()
	before := d.waits.Load()
	s.pass(1800 * time.Millisecond)
	asked := d.waits.Load() - before
	assert.LessOrEqual(s, asked, int64(2))
	assert.Positive(s, asked, "the store must take it for dead")
	s.release(first)
	s.requireLease(a)
}

func (s *suite) minHoldHoldsTheLine() {
	d := s.watched()
	l := s.lockerOn(d)
	began := time.Now()
	first, err := l.Acquire(s.ctx, s.resource, lock.WithMinHold(s.short))
	require.NoError(s, err)
	a := s.inLine(s.ctx, l, d)
	require.NoError(s, first.Release(s.ctx))
	lease := s.requireLease(a)
	assert.GreaterOrEqual(s, a.at.Sub(began), s.short)
	require.NoError(s, lease.Release(s.ctx))
}

// noReleaseGoesUnnoticed has the release come after the answer to the first try, and before anybody listens.
func (s *suite) noReleaseGoesUnnoticed() {
	d := s.watched()
	first := s.acquire(s.resource, s.long)
	var released time.Time
	d.onJoin = func() {
		released = time.Now()
		assert.NoError(s, s.d.Release(s.ctx, first, 0))
	}
	a := s.inLine(s.ctx, s.lockerOn(d), d)
	s.requireWithin(time.Second, released, a)
}

func (s *suite) aReleaseWakesOne() {
	const n = 20
	d := s.watched()
	l := s.lockerOn(d)
	first := s.acquire(s.resource, s.long)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	next := s.inLine(ctx, l, d)
	for range n {
		s.inLine(ctx, l, d)
	}
	s.settle()
	before := d.waits.Load()
	s.release(first)
	s.requireLease(next)
	s.pass(150 * time.Millisecond)
	assert.LessOrEqual(s, d.waits.Load()-before, int64(3))
}
