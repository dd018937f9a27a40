package locktest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock/driver"
)

// leaveCases are about those in line who give up, and what they leave behind.
func leaveCases() []testCase {
	return []testCase{
		{"L04_LeaveGivesUpThePlace", timed((*suite).leaveGivesUpThePlace)},
		{"L04_LeaveEndsTheLease", (*suite).leaveEndsTheLease},
		{"L04_AbandonedTurnIsPassedOn", timed((*suite).abandonedTurnIsPassedOn)},
		{"L04_AbandonedLeaseIsPassedOn", (*suite).abandonedLeaseIsPassedOn},
		{"L04_TombstoneStopsALateWait", (*suite).tombstoneStopsALateWait},
	}
}

func (s *suite) leaveGivesUpThePlace() {
	c := s.acquire(s.resource, s.long)
	ws := s.line(4)
	ws[1].leave()
	ws[2].requireQueued(1)
	ws[0].leave()
	ws[0].leave() // a replay
	ws[2].requireQueued(0)
	ws[3].requireQueued(1)
	require.NoError(s, s.renew(c, s.long, false), "the holder was not meant")
	s.release(c)
	ws[2].requireGranted()
}

func (s *suite) leaveEndsTheLease() {
	w := s.waiter()
	c := w.requireGranted()
	s.waiter().leave()
	s.requireHeld(s.resource)
	w.leave()
	require.ErrorIs(s, s.renew(c, s.long, false), driver.ErrLost)
	s.acquire(s.resource, s.long)
}

func (s *suite) abandonedTurnIsPassedOn() {
	c := s.acquire(s.resource, s.long)
	ws := s.listeningLine(3)
	began := time.Now()
	s.release(c)
	ws[0].requireTold(0)
	s.waiter().leave()
	ws[1].requireQueued(0) // it was not a stranger's to give on
	ws[0].leave()
	ws[1].requireTold(driver.TurnFor)
	ws[1].requireTold(0)
	ws[2].requireQueued(0)
	ws[1].requireGranted()
	assert.Less(s, time.Since(began), driver.TurnFor, "it took the whole turn of the one who left")
}

func (s *suite) abandonedLeaseIsPassedOn() {
	c := s.acquire(s.resource, s.long)
	ws := s.listeningLine(3)
	s.abandon(s.resource, c.Holder)
	ws[0].requireTold(0)
	ws[1].requireTold(driver.TurnFor)
	ws[0].waitForGrant()
	ws[0].leave() // its lease
	ws[1].requireTold(0)
	ws[1].waitForGrant()
}

func (s *suite) tombstoneStopsALateWait() {
	for _, abandon := range []func(*waiter){
		(*waiter).leave,
		func(w *waiter) { s.abandon(w.resource, w.holder) },
	} {
		late := s.waiter()
		abandon(late)
		_, err := late.wait(0)
		s.requireAbandoned(err)
		_, err = s.try(s.ctx, late.holder, s.resource, s.long)
		s.requireAbandoned(err)
		c := s.acquire(s.resource, s.long) // it took nothing
		w := s.waiter()
		w.requireQueued(0)
		_, err = late.wait(0)
		s.requireAbandoned(err)
		s.waiter().requireQueued(1)
		s.release(c)
		s.resource += "/2"
	}
}
