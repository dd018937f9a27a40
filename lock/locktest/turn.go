package locktest

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// turnCases are about whose turn it is, who is told, and who is passed over.
func turnCases() []testCase {
	return []testCase{
		{"L02_ATurnIsNoLease", timed((*suite).aTurnIsNoLease)},
		{"L11_AMissedTurnIsPassedOn", timed((*suite).aMissedTurnIsPassedOn)},
		{"L11_TheSilentArePassedOver", timed((*suite).theSilentArePassedOver)},
		{"L12_ReleaseTellsTheFirst", (*suite).releaseTellsTheFirst},
		{"L12_WhoFindsItFreeTellsTheFirst", timed((*suite).whoFindsItFreeTellsTheFirst)},
		{"L12_OneListenerForMany", (*suite).oneListenerForMany},
		{"L12_ListenEndsWithItsContext", (*suite).listenEndsWithItsContext},
		{"C26_OnlyTheFirstHasTheTurn", (*suite).onlyTheFirstHasTheTurn},
	}
}

func (s *suite) aTurnIsNoLease() {
	c := s.acquire(s.resource, s.long)
	w := s.line(1)[0]
	s.release(c)
	early := fence.Claim{Resource: s.resource, Token: c.Token, Holder: w.holder}
	require.ErrorIs(s, s.renew(early, s.long, false), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, early, 0), driver.ErrLost)
	s.requireHeld(s.resource)
	w.requireGranted()
}

func (s *suite) aMissedTurnIsPassedOn() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(3) // the first two are dead
	released := time.Now()
	s.release(c)
	s.pass(driver.TurnFor - 50*time.Millisecond)
	ws[2].requireQueued(1)
	c = ws[2].waitForGrant()
	assert.GreaterOrEqual(s, time.Since(released), 2*driver.TurnFor-10*time.Millisecond)
	assert.Less(s, time.Since(released), 3*driver.TurnFor)
	s.release(c)
}

// theSilentArePassedOver has leases end by themselves, and the dead ahead.
func (s *suite) theSilentArePassedOver() {
	rows := []struct {
		ahead   int
		overdue time.Duration
		missed  int
	}{
		{1, 0, 0},
		{1, driver.TurnFor - time.Millisecond, 0},
		{1, driver.TurnFor, 1},
		{3, driver.TurnFor, 1},
		{3, 3*driver.TurnFor - time.Millisecond, 2},
		{3, 3 * driver.TurnFor, 3},
		{2, time.Hour, 2},
	}
	name := s.resource
	lines := make([][]*waiter, len(rows))
	for i, row := range rows {
		s.resource = name + string(rune('a'+i))
		c := s.acquire(s.resource, s.long)
		lines[i] = s.line(row.ahead + 1)
		require.NoError(s, s.renew(c, s.short, true))
	}
	s.passBy(s.resource)
	for i, row := range rows {
		last := lines[i][row.ahead]
		if row.missed < row.ahead {
			last.requireQueuedAfter(row.overdue, row.ahead-row.missed-1)
			lines[i][row.missed].requireGranted() // it has the turn
			continue
		}
		last.requireGrantedAfter(row.overdue)
		next := s.waiter()
		next.resource = last.resource
		next.requireQueued(0) // nobody is before it any more
	}
}

func (s *suite) releaseTellsTheFirst() {
	c := s.acquire(s.resource, s.long)
	ws := s.listeningLine(3)
	s.release(c)
	ws[0].requireTold(0)
	ws[1].requireTold(driver.TurnFor)
	c = ws[0].waitForGrant()
	s.release(c)
	ws[1].requireTold(0)
}

func (s *suite) whoFindsItFreeTellsTheFirst() {
	c := s.acquire(s.resource, s.long)
	ws := s.listeningLine(3)
	s.expire(c)
	s.requireHeld(s.resource)
	ws[0].requireTold(0)
	ws[1].requireTold(driver.TurnFor)
	c = ws[0].requireGranted()
	s.expire(c)
	ws[2].requireQueued(0)
	ws[1].requireTold(0)
	for s.hear(ws[2].turns).After != driver.TurnFor { // it may have stood by in the first turn, too
	}
	ws[1].requireGranted()
}

// oneListenerForMany has several waiters of one process, and one of another.
func (s *suite) oneListenerForMany() {
	c := s.acquire(s.resource, s.long)
	ws := []*waiter{s.waiter(), s.waiter(), s.waiter()}
	ws[0].listen()
	ws[1].listener, ws[1].turns = ws[0].listener, ws[0].turns
	ws[2].listen()
	for i, w := range ws {
		w.requireQueued(i)
	}
	s.release(c)
	ws[0].requireTold(0)
	ws[1].requireTold(driver.TurnFor)
	s.release(ws[0].waitForGrant())
	ws[1].requireTold(0)
	s.release(ws[1].waitForGrant())
	for {
		if told := s.hear(ws[2].turns); told.After == 0 {
			require.Equal(s, ws[2].holder, told.Holder)
			break
		}
	}
	select {
	case told := <-ws[0].turns:
		require.Fail(s, "another's listener was told", told)
	default:
	}
}

func (s *suite) listenEndsWithItsContext() {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- s.d.(driver.Waiter).Listen(ctx, uuid.New(), cancel, func(driver.Turn) {})
	}()
	select {
	case err := <-ended:
		require.Error(s, err)
		require.Error(s, ctx.Err(), "it ended by itself")
	case <-s.ctx.Done():
		require.Fail(s, "it listens still, or never did")
	}
}

// onlyTheFirstHasTheTurn counts what a long line is told at a release.
func (s *suite) onlyTheFirstHasTheTurn() {
	const n = 20
	c := s.acquire(s.resource, s.long)
	ws := make([]*waiter, n)
	listener := uuid.New()
	turns := s.listen(listener)
	for i := range ws {
		ws[i] = s.waiter()
		ws[i].listener = listener
		ws[i].requireQueued(i)
	}
	s.release(c)
	require.Equal(s, driver.Turn{Holder: ws[0].holder}, s.hear(turns))
	s.pass(100 * time.Millisecond)
	told := len(turns)
	assert.LessOrEqual(s, told, 4, "of the others a few stand by")
	for range told {
		assert.Positive(s, (<-turns).After, "another has the turn, too")
	}
}
