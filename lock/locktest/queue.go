package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock/driver"
)

// queueCases are what a driver must do that keeps a line.
func queueCases() []testCase {
	return []testCase{
		{"L11_TheSilentLoseTheirPlace", (*suite).theSilentLoseTheirPlace},
		{"L03_ReplayedWaitReturnsTheStoredToken", (*suite).replayedWaitReturnsTheStoredToken},
		{"L03_ReplayedWaitKeepsItsPlace", (*suite).replayedWaitKeepsItsPlace},
		{"C05_EndedContextKeepsOutOfLine", (*suite).endedContextKeepsOutOfLine},
		{"L10_FreeResourceIsGrantedToAWaiter", (*suite).freeResourceIsGrantedToAWaiter},
		{"L10_FirstComeFirstServed", timed((*suite).firstComeFirstServed)},
		{"L10_TryNeverJumpsTheLine", timed((*suite).tryNeverJumpsTheLine)},
		{"L10_TicketKeepsThePlace", timed((*suite).ticketKeepsThePlace)},
		{"L16_LinesAreApart", (*suite).linesAreApart},
		{"L21_KeptResourceIsNobodysTurn", timed((*suite).keptResourceIsNobodysTurn)},
		{"OneHolderAtATime_InLine", (*suite).oneHolderAtATimeInLine},
	}
}

func (s *suite) replayedWaitReturnsTheStoredToken() {
	w := s.waiter()
	first := w.requireGranted()
	assert.Equal(s, first, w.requireGranted())
	assert.Equal(s, first, s.acquireAs(w.holder, s.resource, s.long))
	s.release(first)
	assert.Greater(s, s.acquire(s.resource, s.long).Token, first.Token)
}

func (s *suite) replayedWaitKeepsItsPlace() {
	s.acquire(s.resource, s.long)
	ws := s.line(3)
	ticket := ws[1].ticket
	for _, known := range []int64{0, ticket, 0} { // 0: the answer was lost
		ws[1].ticket = known
		ws[1].requireQueued(1)
		assert.Equal(s, ticket, ws[1].ticket)
	}
	ws[2].requireQueued(2)
}

func (s *suite) endedContextKeepsOutOfLine() {
	ctx, cancel := context.WithCancel(s.ctx)
	c := s.acquire(s.resource, s.long)
	w, ended := s.waiter(), s.waiter()
	w.requireQueued(0)
	cancel()
	_, err := ended.queue.Wait(ctx, request(s.resource, ended.holder, s.long), driver.Place{Listener: ended.listener})
	require.ErrorIs(s, err, context.Canceled)
	require.ErrorIs(s, w.queue.Leave(ctx, s.resource, w.holder, w.listener), context.Canceled)
	err = w.queue.Listen(ctx, w.listener, func() { assert.Fail(s, "it listens") }, func(driver.Turn) {})
	require.ErrorIs(s, err, context.Canceled)
	s.waiter().requireQueued(1)
	w.requireQueued(0)
	s.release(c)
}

func (s *suite) freeResourceIsGrantedToAWaiter() {
	w := s.waiter()
	g, err := w.wait(0)
	require.NoError(s, err)
	assert.GreaterOrEqual(s, g.TTL, s.long)
	c := w.claim(g)
	for i := range 3 {
		next := s.waiter()
		left := next.requireQueued(i)
		assert.Positive(s, left)
		assert.LessOrEqual(s, left, 2*s.long)
		next.requireQueued(i)
	}
	require.NoError(s, s.renew(c, s.long, false))
	s.release(c)
}

// firstComeFirstServed has the others ask first, each time that the resource gets free.
func (s *suite) firstComeFirstServed() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(5)
	assert.IsIncreasing(s, tickets(ws))
	for len(ws) > 0 {
		s.release(c)
		for i, w := range slices.Backward(ws[1:]) {
			left := w.requireQueued(i) // who has the turn is not in line any more
			assert.Positive(s, left)
			assert.LessOrEqual(s, left, driver.TurnFor)
		}
		ws[0].ticket = 0 // an answer may have been lost: the turn is enough
		next := ws[0].requireGranted()
		assert.Greater(s, next.Token, c.Token)
		assert.Greater(s, s.requireHeld(s.resource), driver.TurnFor, "it got a turn, and no lease")
		c, ws = next, ws[1:]
	}
	s.release(c)
	s.acquire(s.resource, s.long)
}

func tickets(ws []*waiter) []int64 {
	ts := make([]int64, len(ws))
	for i, w := range ws {
		ts[i] = w.ticket
	}
	return ts
}

func (s *suite) tryNeverJumpsTheLine() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(2)
	s.release(c)
	left := s.requireHeld(s.resource)
	assert.Positive(s, left)
	assert.LessOrEqual(s, left, driver.TurnFor)
	c = ws[0].requireGranted()
	s.expire(c)
	s.requireHeld(s.resource) // nobody was there to tell, and still it is not free for all
	ws[1].requireGranted()
}

// ticketKeepsThePlace has a waiter miss its turn. It comes back before those who came after it.
func (s *suite) ticketKeepsThePlace() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(3)
	s.release(c)
	c = ws[1].waitForGrant()
	require.Equal(s, c, ws[1].requireGranted())
	s.waiter().requireQueued(1)
	ws[0].requireQueued(0)
	ws[2].requireQueued(1)
	s.release(c)
	ws[0].requireGranted()
}

// theSilentLoseTheirPlace has one in line that is dead, and others who ask again, as package lock does.
func (s *suite) theSilentLoseTheirPlace() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(3)
	dead, alive := ws[0], ws[1:]
	for {
		_, err := alive[0].wait(0)
		var queued *driver.Queued
		require.ErrorAs(s, err, &queued)
		if queued.Ahead == 0 {
			break
		}
		_, err = alive[1].wait(0)
		require.ErrorAs(s, err, &queued)
		require.Contains(s, []int{1, 2}, queued.Ahead, "the dead one may have gone since")
		s.pass(500 * time.Millisecond)
	}
	alive[1].requireQueued(1)
	dead.requireQueued(0) // it only slept
	alive[0].requireQueued(1)
	s.release(c)
}

func (s *suite) linesAreApart() {
	for _, name := range oddNames {
		s.acquire(s.resource+name, s.long)
		w := s.waiter()
		w.resource += name
		w.requireQueued(0)
	}
	s.acquire("{lock:"+s.resource+"}:queue", s.long) // where a driver might keep its line
	w := s.waiter()
	w.resource = "{lock:" + s.resource + "}:queue"
	w.requireQueued(0)
}

func (s *suite) keptResourceIsNobodysTurn() {
	c := s.acquire(s.resource, s.long)
	ws := s.listeningLine(2)
	released := time.Now()
	require.NoError(s, s.d.Release(s.ctx, c, s.short))
	assert.LessOrEqual(s, ws[0].requireQueued(0), 2*s.short)
	s.passBy(s.resource)
	assert.GreaterOrEqual(s, time.Since(released), s.short)
	assert.Empty(s, ws[0].turns, "it was told of a turn that it had not")
	ws[1].requireQueued(0)
	ws[0].requireTold(0)
	assert.Greater(s, ws[0].requireGranted().Token, c.Token)
}

// oneHolderAtATimeInLine has waiters and others compete. Only waiters are sure to get their turn.
func (s *suite) oneHolderAtATimeInLine() {
	const waiters, each, others = 6, 8, 2
	var (
		line, rest sync.WaitGroup
		inside     atomic.Int32
		last       atomic.Int64
	)
	hold := func(token int64) {
		assert.EqualValues(s, 1, inside.Add(1), "two holders at once")
		assert.Greater(s, token, last.Swap(token))
		s.pass(time.Millisecond)
		inside.Add(-1)
	}
	for range waiters {
		line.Go(func() {
			for range each {
				w := s.waiter()
				c := w.waitForGrant()
				hold(int64(c.Token))
				assert.NoError(s, s.d.Release(s.ctx, c, 0))
			}
		})
	}
	served := make(chan struct{})
	for range others {
		rest.Go(func() {
			for {
				select {
				case <-served:
					return
				case <-time.After(2 * time.Millisecond):
				}
				holder := uuid.New()
				g, err := s.try(s.ctx, holder, s.resource, s.long)
				var held *driver.Held
				if errors.As(err, &held) {
					continue
				}
				if assert.NoError(s, err) {
					hold(int64(g.Token))
				}
				s.abandon(s.resource, holder)
			}
		})
	}
	line.Wait()
	close(served)
	rest.Wait()
}
