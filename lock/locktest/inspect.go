package locktest

import (
	"context"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// inspectCases are what a driver must do that tells who holds a resource.
func inspectCases() []testCase {
	return []testCase{
		{"InspectTellsWhoHolds", (*suite).inspectTellsWhoHolds},
		{"C05_EndedContextInspectsNothing", (*suite).endedContextInspectsNothing},
	}
}

// inspectQueueCases are about those in line.
func inspectQueueCases() []testCase {
	return []testCase{
		{"InspectCountsTheLine", (*suite).inspectCountsTheLine},
	}
}

func (s *suite) inspect() driver.Info {
	s.Helper()
	info, err := s.d.(driver.Inspector).Inspect(s.ctx, s.resource)
	require.NoError(s, err)
	return info
}

func (s *suite) inspectTellsWhoHolds() {
	free := driver.Info{Holder: fence.Fingerprint(uuid.Nil)}
	assert.Equal(s, free, s.inspect())
	const label = "host:1 ü, \"a\" 12"
	holder := uuid.New()
	g, err := s.d.Acquire(s.ctx, driver.Request{Resource: s.resource, Holder: holder, TTL: s.long, Label: label})
	require.NoError(s, err)
	c := fence.Claim{Resource: s.resource, Token: g.Token, Holder: holder}
	for range 2 { // it changes nothing
		info := s.inspect()
		if info.Remaining > 0 {
			assert.Greater(s, info.Remaining, s.long/2)
			assert.LessOrEqual(s, info.Remaining, g.TTL)
		}
		info.Remaining = 0
		assert.Equal(s, driver.Info{Held: true, Token: c.Token, Holder: fence.Fingerprint(holder), Label: label}, info)
	}
	require.NoError(s, s.d.Release(s.ctx, c, s.long))
	info := s.inspect()
	assert.True(s, info.Held)
	assert.Equal(s, free.Holder, info.Holder)

	s.resource += "/2"
	s.release(s.acquire(s.resource, s.long))
	assert.Equal(s, free, s.inspect())
	s.expire(s.acquire(s.resource, s.long))
	assert.Equal(s, free, s.inspect())
}

func (s *suite) endedContextInspectsNothing() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.d.(driver.Inspector).Inspect(ctx, s.resource)
	require.ErrorIs(s, err, context.Canceled)
}

func (s *suite) inspectCountsTheLine() {
	c := s.acquire(s.resource, s.long)
	assert.Zero(s, s.inspect().Waiters)
	ws := s.line(3)
	info := s.inspect()
	assert.Equal(s, 3, info.Waiters)
	assert.Equal(s, fence.Fingerprint(c.Holder), info.Holder)
	ws[1].leave()
	assert.Equal(s, 2, s.inspect().Waiters)
}
