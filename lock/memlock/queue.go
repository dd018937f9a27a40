package memlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/lock/driver"
)

// waiter is a place in line.
type waiter struct {
	holder   uuid.UUID
	listener uuid.UUID
	ticket   int64
	heard    time.Time // when it last asked
}

// silentFor is after how long without a word a waiter is taken for dead. Package lock asks about once
// a second.
const silentFor = 3 * time.Second

// Wait implements [driver.Waiter].
func (d *Driver) Wait(ctx context.Context, r driver.Request, p driver.Place) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.state(r.Resource, now)
	switch {
	case s.heldBy(r.Holder, now):
		return s.replay(now), nil
	case d.isAbandoned(r.Holder, now):
		return driver.Grant{}, errAbandoned
	case s.turn.of(r.Holder, now):
		return d.grant(s, r, now)
	}
	ticket := d.join(s, r.Holder, p, now)
	ahead := s.ahead(r.Holder)
	if left := s.takenFor(r.Holder, now); left > 0 {
		return driver.Grant{}, &driver.Queued{Ticket: ticket, Ahead: ahead, RetryAfter: left}
	}
	missed := min(ahead, int(p.Overdue/driver.TurnFor))
	s.line, ahead = s.line[missed:], ahead-missed
	if ahead == 0 {
		return d.grant(s, r, now)
	}
	turn := max(driver.TurnFor-p.Overdue%driver.TurnFor, leastTurn) // it has begun
	d.giveTurn(s, now, turn)
	return driver.Grant{}, &driver.Queued{Ticket: ticket, Ahead: ahead - 1, RetryAfter: turn}
}

// Leave implements [driver.Waiter].
func (d *Driver) Leave(ctx context.Context, resource string, holder, _ uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.bury(holder, now)
	s, ok := d.states[resource]
	if !ok {
		return nil
	}
	s.leave(holder)
	switch {
	case s.heldBy(holder, now):
		d.end(s, 0, now)
	case s.turn.of(holder, now):
		s.turn = turn{}
		d.giveTurn(s, now, driver.TurnFor)
	}
	return nil
}

// join puts holder in line, at the place of its ticket or of the one it has, whichever is before, and
// returns the ticket. Who has none gets the next, above all that were ever given.
func (d *Driver) join(s *state, holder uuid.UUID, p driver.Place, now time.Time) int64 {
	ticket := p.Ticket
	if i := s.ahead(holder); i < len(s.line) && (ticket == 0 || s.line[i].ticket < ticket) {
		ticket = s.line[i].ticket
	}
	if ticket == 0 {
		d.ticket = max(d.ticket+1, d.clock(now))
		ticket = d.ticket
	}
	s.leave(holder)
	i, _ := slices.BinarySearchFunc(s.line, ticket+1, func(w waiter, t int64) int { return cmp.Compare(w.ticket, t) })
	s.line = slices.Insert(s.line, i, waiter{holder: holder, listener: p.Listener, ticket: ticket, heard: now})
	return ticket
}

// ahead is how many stand in line before holder: all, if it doesn't.
func (s *state) ahead(holder uuid.UUID) int {
	for i, w := range s.line {
		if w.holder == holder {
			return i
		}
	}
	return len(s.line)
}

func (s *state) leave(holder uuid.UUID) {
	s.line = slices.DeleteFunc(s.line, func(w waiter) bool { return w.holder == holder })
}

// prune drops the waiters who are taken for dead.
func (s *state) prune(now time.Time) {
	s.line = slices.DeleteFunc(s.line, func(w waiter) bool { return now.Sub(w.heard) > silentFor })
}

// standBy is how many of those behind the one who has the turn are told to be ready.
const standBy = 2

// leastTurn is what is left of a turn at least, when it is given.
const leastTurn = 40 * time.Millisecond

// giveTurn gives the first in line the turn, for that long. The resource is free, and nobody else has the turn.
func (d *Driver) giveTurn(s *state, now time.Time, length time.Duration) {
	s.prune(now)
	if len(s.line) == 0 {
		return
	}
	first := s.line[0]
	s.line = slices.Delete(s.line, 0, 1)
	s.turn = turn{holder: first.holder, until: now.Add(length)}
	d.tell(first, 0)
	for i, w := range s.line[:min(standBy, len(s.line))] {
		d.tell(w, length+time.Duration(i)*driver.TurnFor)
	}
}
