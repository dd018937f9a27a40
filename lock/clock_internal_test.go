package lock

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// machine is a computer whose clocks a test moves.
type machine struct {
	mono, wall, slept time.Duration // since the test began
	tells             bool          // it has a boot clock
	asked             int
	start             time.Time
}

func newMachine(tells bool) *machine {
	return &machine{tells: tells, start: time.Now(), slept: time.Hour}
}

func (m *machine) now() time.Time { return m.start.Add(m.mono) }

func (m *machine) ahead(time.Time) time.Duration { return m.wall - m.mono }

func (m *machine) asleep() (time.Duration, bool) {
	m.asked++
	if !m.tells {
		return 0, false
	}
	return m.slept, true
}

// run lets time pass that the machine is awake.
func (m *machine) run(d time.Duration) { m.mono, m.wall = m.mono+d, m.wall+d }

// sleep suspends it.
func (m *machine) sleep(d time.Duration) { m.wall, m.slept = m.wall+d, m.slept+d }

// leaseOn returns a lease of a second on a Locker that nobody watches.
func leaseOn(t *testing.T, m *machine) *Lease {
	t.Helper()
	l, err := New(noDriver{})
	require.NoError(t, err)
	l.clock = newClock(m.now, m.ahead, m.asleep)
	l.armed = m.now().Add(-time.Hour) // so nothing is due before the watch looks, and it never does
	claim := fence.Claim{Resource: "a", Token: 1, Holder: uuid.New()}
	le, err := l.lease(t.Context(), claim, l.defaults, l.clock.Now(), time.Second, false)
	require.NoError(t, err)
	return le
}

func TestL06_LeaseEndsWhileTheMachineSleeps(t *testing.T) {
	for name, tells := range map[string]bool{"boot clock": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(tells)
			le := leaseOn(t, m)
			m.run(500 * time.Millisecond)
			require.NoError(t, le.Err())
			m.sleep(480 * time.Millisecond)
			require.NoError(t, le.Err())
			assert.InDelta(t, float64(10*time.Millisecond), float64(le.Deadline().Sub(m.now())), float64(time.Millisecond))
			m.sleep(10 * time.Millisecond)
			require.ErrorIs(t, le.Err(), ErrLost)
			require.ErrorIs(t, context.Cause(le.Context()), ErrLost)
		})
	}
}

// TestL06_WallClockSetBackProlongsNothing also sets it forward: with a boot clock that is nothing to a lease.
func TestL06_WallClockSetBackProlongsNothing(t *testing.T) {
	for name, tells := range map[string]bool{"boot clock": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(tells)
			le := leaseOn(t, m)
			m.wall -= time.Hour
			m.run(989 * time.Millisecond)
			require.NoError(t, le.Err())
			m.run(time.Millisecond)
			require.ErrorIs(t, le.Err(), ErrLost)
		})
	}
	m := newMachine(true)
	le := leaseOn(t, m)
	m.wall += time.Hour
	require.NoError(t, le.Err(), "the wall clock was set forward, and the system says that it did not sleep")
	m = newMachine(false)
	le = leaseOn(t, m)
	m.wall += time.Hour
	require.ErrorIs(t, le.Err(), ErrLost, "it may have slept")
}

// TestL06_SleepBehindAWallClockSetBack moves no clock against another: the watch asks all the same.
func TestL06_SleepBehindAWallClockSetBack(t *testing.T) {
	m := newMachine(true)
	le := leaseOn(t, m)
	m.slept += time.Hour
	le.locker.watch()
	require.ErrorIs(t, le.Err(), ErrLost)
}

func TestL06_ClockAsksTheSystemOnlyWhenAClockMoved(t *testing.T) {
	m := newMachine(true)
	c := newClock(m.now, m.ahead, m.asleep)
	asked := m.asked
	for range 1000 {
		m.run(time.Second)
		c.Now()
	}
	assert.Equal(t, asked, m.asked)
	m.sleep(time.Minute)
	assert.Equal(t, 1000*time.Second+time.Minute, c.Now().Sub(m.start))
	assert.Equal(t, asked+1, m.asked)
}

// TestL06_SystemClock reads the machine's own.
func TestL06_SystemClock(t *testing.T) {
	first, told := asleep()
	again, _ := asleep()
	assert.GreaterOrEqual(t, first, time.Duration(0))
	if told {
		assert.InDelta(t, float64(first), float64(again), float64(5*time.Millisecond))
	}
	c := systemClock()
	assert.WithinDuration(t, time.Now(), c.Now(), time.Second)
	assert.WithinDuration(t, time.Now().Add(time.Minute), c.public(c.Now().Add(time.Minute)), time.Second)
}

// TestL06_SleepAfterAWallClockSetBack is noticed, although the wall clock shows less than it did.
func TestL06_SleepAfterAWallClockSetBack(t *testing.T) {
	for name, tells := range map[string]bool{"boot clock": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(tells)
			le := leaseOn(t, m)
			m.wall -= time.Hour
			require.NoError(t, le.Err())
			m.sleep(time.Minute)
			require.ErrorIs(t, le.Err(), ErrLost)
		})
	}
}
