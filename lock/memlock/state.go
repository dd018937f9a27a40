package memlock

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// state is what is kept for a resource.
type state struct {
	last  fence.Token // no later token may be this or less
	lease lease
	turn  turn
	line  []waiter // by ticket
}

type lease struct {
	holder uuid.UUID // zero: released, but kept taken
	token  fence.Token
	label  string
	until  time.Time
}

// turn is a lease on the right to acquire. There is none while there is a lease.
type turn struct {
	holder uuid.UUID
	until  time.Time
}

func (t turn) of(holder uuid.UUID, now time.Time) bool {
	return now.Before(t.until) && t.holder == holder
}

// held reports whether there is a lease, be it nobody's.
func (s *state) held(now time.Time) bool { return s != nil && now.Before(s.lease.until) }

func (s *state) heldBy(holder uuid.UUID, now time.Time) bool {
	return s.held(now) && s.lease.holder == holder && holder != uuid.Nil
}

// takenFor is what is left of the lease, or of a turn of another than holder.
func (s *state) takenFor(holder uuid.UUID, now time.Time) time.Duration {
	switch {
	case s.held(now):
		return s.lease.until.Sub(now)
	case now.Before(s.turn.until) && s.turn.holder != holder:
		return s.turn.until.Sub(now)
	}
	return 0
}

// replay is the answer that was lost.
func (s *state) replay(now time.Time) driver.Grant {
	return driver.Grant{Token: s.lease.token, TTL: s.lease.until.Sub(now)}
}

// state returns what is kept for a resource, to be written to. The line is without the dead.
func (d *Driver) state(resource string, now time.Time) *state {
	s, ok := d.states[resource]
	if !ok {
		d.sweep(now)
		s = &state{}
		d.states[resource] = s
	}
	s.prune(now)
	return s
}

// bury leaves a tombstone for a holder: what it asked for and is still on its way finds that.
func (d *Driver) bury(holder uuid.UUID, now time.Time) {
	d.abandoned[holder] = now.Add(driver.AbandonFor)
	d.sweep(now)
}

func (d *Driver) isAbandoned(holder uuid.UUID, now time.Time) bool {
	return now.Before(d.abandoned[holder])
}

// idle reports whether s could as well be made anew.
func (d *Driver) idle(s *state, now time.Time) bool {
	s.prune(now)
	return !s.held(now) && !now.Before(s.turn.until) && len(s.line) == 0 && int64(s.last) < d.clock(now)
}

const leastSweep = 64

// sweep throws out what is over, when the maps have doubled or a minute has passed since the last time: the
// memory is bounded by what is live, and was within the minute.
func (d *Driver) sweep(now time.Time) {
	if size := len(d.states) + len(d.abandoned); size < leastSweep || size < d.sweepAt && now.Before(d.sweepBy) {
		return
	}
	for resource, s := range d.states {
		if d.idle(s, now) {
			delete(d.states, resource)
		}
	}
	for holder := range d.abandoned {
		if !d.isAbandoned(holder, now) {
			delete(d.abandoned, holder)
		}
	}
	d.sweepAt, d.sweepBy = 2*(len(d.states)+len(d.abandoned)), now.Add(time.Minute)
}
