package locktest

import (
	"context"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// breakCases are what a driver must do from which a lease can be taken by force.
func breakCases() []testCase {
	return []testCase{
		{"L23_BreakTakesWhatIsHeld", (*suite).breakTakesWhatIsHeld},
		{"L23_BreakTakesWhatIsFreeOrKept", (*suite).breakTakesWhatIsFreeOrKept},
		{"L23_BreakHitsOnlyWhoIsMeant", (*suite).breakHitsOnlyWhoIsMeant},
		{"L03_ReplayedBreakReturnsTheStoredToken", (*suite).replayedBreakReturnsTheStoredToken},
		{"L04_TombstoneStopsALateBreak", (*suite).tombstoneStopsALateBreak},
		{"C05_EndedContextBreaksNothing", (*suite).endedContextBreaksNothing},
	}
}

// breakQueueCases are about those in line.
func breakQueueCases() []testCase {
	return []testCase{
		{"L23_BreakPassesTheLine", timed((*suite).breakPassesTheLine)},
	}
}

// breakFor makes one try for a holder.
func (s *suite) breakFor(holder uuid.UUID, fingerprint string) (driver.Grant, error) {
	return s.d.(driver.Breaker).Break(s.ctx, request(s.resource, holder, s.long), fingerprint)
}

// requireBroken takes the resource for a fresh holder.
func (s *suite) requireBroken(fingerprint string) fence.Claim {
	s.Helper()
	holder := uuid.New()
	g, err := s.breakFor(holder, fingerprint)
	require.NoError(s, err)
	require.GreaterOrEqual(s, g.TTL, s.long)
	return fence.Claim{Resource: s.resource, Token: g.Token, Holder: holder}
}

func (s *suite) breakTakesWhatIsHeld() {
	old := s.acquire(s.resource, 3*s.long)
	c := s.requireBroken("")
	assert.Greater(s, c.Token, old.Token)
	require.ErrorIs(s, s.renew(old, s.long, false), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, old, 0), driver.ErrLost)
	assert.LessOrEqual(s, s.requireHeld(s.resource), 2*s.long, "it has the other's end")
	require.NoError(s, s.renew(c, s.long, false))
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.release(c)
	assert.Greater(s, s.acquire(s.resource, s.long).Token, c.Token)
}

func (s *suite) breakTakesWhatIsFreeOrKept() {
	c := s.requireBroken("")
	s.requireHeld(s.resource)
	require.NoError(s, s.d.Release(s.ctx, c, s.long))
	next := s.requireBroken("")
	assert.Greater(s, next.Token, c.Token)
	s.release(next)
	s.acquire(s.resource, s.long)
}

func (s *suite) breakHitsOnlyWhoIsMeant() {
	first := s.acquire(s.resource, s.long)
	gone := fence.Fingerprint(first.Holder)
	s.release(first)
	_, err := s.breakFor(uuid.New(), gone)
	require.ErrorIs(s, err, driver.ErrLost)
	c := s.acquire(s.resource, s.long) // it is free still
	_, err = s.breakFor(uuid.New(), gone)
	require.ErrorIs(s, err, driver.ErrLost)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	next := s.requireBroken(fence.Fingerprint(c.Holder))
	assert.Greater(s, next.Token, c.Token)
	require.ErrorIs(s, s.renew(c, s.long, false), driver.ErrLost)
	s.expire(next)
	_, err = s.breakFor(uuid.New(), fence.Fingerprint(next.Holder))
	require.ErrorIs(s, err, driver.ErrLost)
	s.acquire(s.resource, s.long)
}

func (s *suite) replayedBreakReturnsTheStoredToken() {
	fingerprint := fence.Fingerprint(s.acquire(s.resource, s.long).Holder)
	c := s.requireBroken(fingerprint)
	for _, meant := range []string{fingerprint, ""} {
		g, err := s.breakFor(c.Holder, meant)
		require.NoError(s, err)
		assert.Equal(s, c.Token, g.Token)
	}
}

func (s *suite) tombstoneStopsALateBreak() {
	c := s.acquire(s.resource, s.long)
	late := uuid.New()
	s.abandon(s.resource, late)
	_, err := s.breakFor(late, "")
	s.requireAbandoned(err)
	_, err = s.breakFor(late, fence.Fingerprint(c.Holder))
	s.requireAbandoned(err)
	require.NoError(s, s.renew(c, s.long, false))
}

func (s *suite) endedContextBreaksNothing() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	c := s.acquire(s.resource, s.long)
	for _, fingerprint := range []string{"", fence.Fingerprint(c.Holder)} {
		_, err := s.d.(driver.Breaker).Break(ctx, request(s.resource, uuid.New(), s.long), fingerprint)
		require.ErrorIs(s, err, context.Canceled)
	}
	require.NoError(s, s.renew(c, s.long, false))
}

// breakPassesTheLine takes the resource from a holder, and from who has the turn. Nobody loses a place.
func (s *suite) breakPassesTheLine() {
	s.acquire(s.resource, s.long)
	ws := s.listeningLine(2)
	c := s.requireBroken("")
	ws[0].requireQueued(0)
	s.release(c)
	ws[0].requireTold(0)
	ws[1].requireTold(driver.TurnFor)
	c = s.requireBroken("")
	ws[0].requireQueued(0) // it had the turn
	ws[1].requireQueued(1)
	s.release(c)
	ws[0].requireTold(0)
	ws[0].requireGranted()
}
