package lock

import (
	"sync"
	"time"
)

// clock tells the time by which leases end. It goes on while the machine sleeps, as Go's own clock and its timers do
// not (L06).
//
// How long the machine has slept takes a system call to find out. A sleep moves the wall clock ahead of the monotonic
// one, as does setting the wall clock: the clock asks the system when it sees that, and whenever the watch looks at the
// leases. Where the system can't tell, each step of the wall clock ahead counts as a sleep, and none back makes up for it.
type clock struct {
	now    func() time.Time
	ahead  func(now time.Time) time.Duration // by how much the wall clock is ahead of the monotonic one
	asleep func() (time.Duration, bool)      // how long the machine has slept since it was started; false: the system can't tell

	mu     sync.Mutex
	before time.Duration // slept before the clock was made
	slept  time.Duration // and since
	seen   time.Duration // ahead, when slept was looked up
}

// steady is what two readings of clocks that were not moved may differ by.
const steady = time.Millisecond

func newClock(now func() time.Time, ahead func(time.Time) time.Duration, asleep func() (time.Duration, bool)) *clock {
	c := &clock{now: now, ahead: ahead, asleep: asleep, seen: ahead(now())}
	c.before, _ = asleep()
	return c
}

// systemClock is the machine's.
func systemClock() *clock {
	start := time.Now()
	ahead := func(now time.Time) time.Duration { return now.Round(0).Sub(start.Round(0)) - now.Sub(start) }
	return newClock(time.Now, ahead, asleep)
}

// Now is the present. Its wall clock is off by what the machine has slept: see public.
func (c *clock) Now() time.Time {
	now := c.now()
	ahead := c.ahead(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := ahead - c.seen; d < -steady || d > steady {
		c.look(ahead)
	}
	return now.Add(c.slept)
}

// refresh looks up how long the machine has slept, whether a clock was moved or not.
func (c *clock) refresh() {
	ahead := c.ahead(c.now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look(ahead)
}

func (c *clock) look(ahead time.Duration) {
	if slept, told := c.asleep(); told {
		c.slept = slept - c.before
	} else {
		c.slept += max(0, ahead-c.seen)
	}
	c.seen = ahead
}

// passed reports whether t is reached.
func (c *clock) passed(t time.Time) bool { return !c.Now().Before(t) }

// public is t as the clock of package time has it.
func (c *clock) public(t time.Time) time.Time { return c.now().Add(t.Sub(c.Now())) }

// margin is what a lease's deadline is early, so that it is over here before the store lets the next
// holder in.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
}

// deadline is when a lease of ttl, asked for at sent, is over for its holder (L05).
func deadline(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - margin(ttl))
}
