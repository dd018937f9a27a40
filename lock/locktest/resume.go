package locktest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// resumeCases are what a driver must do that hands leases over.
func resumeCases() []testCase {
	return []testCase{
		{"L22_ResumeExchangesHolderAndToken", (*suite).resumeExchangesHolderAndToken},
		{"L22_OnlyTheExactClaimIsResumed", (*suite).onlyTheExactClaimIsResumed},
		{"L22_AClaimIsResumedOnce", (*suite).aClaimIsResumedOnce},
		{"L22_ResumeSetsTheEndIfTold", (*suite).resumeSetsTheEndIfTold},
		{"L03_ReplayedResumeReturnsTheStoredToken", (*suite).replayedResumeReturnsTheStoredToken},
		{"L04_TombstoneStopsALateResume", (*suite).tombstoneStopsALateResume},
		{"L08_ResumeRevivesNothing", (*suite).resumeRevivesNothing},
		{"C05_EndedContextResumesNothing", (*suite).endedContextResumesNothing},
	}
}

// resume makes one try for a holder, that leaves the end as it is.
func (s *suite) resume(c fence.Claim, holder uuid.UUID) (driver.Grant, error) {
	return s.d.(driver.Resumer).Resume(s.ctx, c, request(c.Resource, holder, 0))
}

// requireResumed resumes for a fresh holder.
func (s *suite) requireResumed(c fence.Claim) fence.Claim {
	s.Helper()
	holder := uuid.New()
	g, err := s.resume(c, holder)
	require.NoError(s, err)
	return fence.Claim{Resource: c.Resource, Token: g.Token, Holder: holder}
}

func (s *suite) resumeExchangesHolderAndToken() {
	old := s.acquire(s.resource, s.long)
	c := s.requireResumed(old)
	assert.Greater(s, c.Token, old.Token)
	require.ErrorIs(s, s.renew(old, 3*s.long, false), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, old, 0), driver.ErrLost)
	assert.LessOrEqual(s, s.requireHeld(s.resource), 2*s.long)
	require.NoError(s, s.renew(c, 3*s.long, false))
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.release(c)
	assert.Greater(s, s.acquire(s.resource, s.long).Token, c.Token)
}

func (s *suite) onlyTheExactClaimIsResumed() {
	c := s.acquire(s.resource, s.long)
	other := s.acquire(s.resource+"/other", s.long)
	for what, wrong := range map[string]fence.Claim{
		"a token below":      {Resource: c.Resource, Token: c.Token - 1, Holder: c.Holder},
		"a token above":      {Resource: c.Resource, Token: c.Token + 1, Holder: c.Holder},
		"no token":           {Resource: c.Resource, Holder: c.Holder},
		"another holder":     {Resource: c.Resource, Token: c.Token, Holder: uuid.New()},
		"no holder":          {Resource: c.Resource, Token: c.Token},
		"another resource's": {Resource: c.Resource, Token: other.Token, Holder: other.Holder},
		"a free resource":    {Resource: c.Resource + "/free", Token: c.Token, Holder: c.Holder},
	} {
		_, err := s.resume(wrong, uuid.New())
		assert.ErrorIs(s, err, driver.ErrLost, what)
	}
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.acquire(s.resource+"/free", s.long)
	s.requireResumed(c)
}

// aClaimIsResumedOnce is the double click.
func (s *suite) aClaimIsResumedOnce() {
	c := s.acquire(s.resource, s.long)
	var (
		clicks  sync.WaitGroup
		resumed atomic.Int32
	)
	for range 8 {
		clicks.Go(func() {
			if _, err := s.resume(c, uuid.New()); err == nil {
				resumed.Add(1)
			} else {
				assert.ErrorIs(s, err, driver.ErrLost)
			}
		})
	}
	clicks.Wait()
	assert.EqualValues(s, 1, resumed.Load())
}

func (s *suite) resumeSetsTheEndIfTold() {
	c := s.acquire(s.resource, s.long)
	resume := func(r driver.Request) driver.Grant {
		s.Helper()
		r.Holder = uuid.New()
		g, err := s.d.(driver.Resumer).Resume(s.ctx, c, r)
		require.NoError(s, err)
		c.Token, c.Holder = g.Token, r.Holder
		return g
	}
	before := s.requireHeld(s.resource)
	g := resume(driver.Request{Resource: s.resource})
	assert.Positive(s, g.TTL)
	after := s.requireHeld(s.resource)
	assert.LessOrEqual(s, after, g.TTL)
	if before > 0 {
		assert.LessOrEqual(s, g.TTL, before)
		assert.Greater(s, after, s.long/2)
	}
	g = resume(driver.Request{Resource: s.resource, TTL: 3 * s.long})
	assert.GreaterOrEqual(s, g.TTL, 3*s.long)
	assert.Greater(s, s.requireHeld(s.resource), 2*s.long)
	g = resume(driver.Request{Resource: s.resource, TTL: s.short})
	assert.GreaterOrEqual(s, g.TTL, s.short)
	assert.Less(s, g.TTL, s.long)
	s.acquireWhenFree(s.resource)
}

func (s *suite) replayedResumeReturnsTheStoredToken() {
	old := s.acquire(s.resource, s.long)
	c := s.requireResumed(old)
	for range 2 {
		g, err := s.resume(old, c.Holder)
		require.NoError(s, err)
		assert.Equal(s, c.Token, g.Token)
	}
	s.release(c)
	_, err := s.resume(old, c.Holder)
	require.ErrorIs(s, err, driver.ErrLost)
}

func (s *suite) tombstoneStopsALateResume() {
	c := s.acquire(s.resource, s.long)
	late := uuid.New()
	s.abandon(s.resource, late)
	_, err := s.resume(c, late)
	s.requireAbandoned(err)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.requireResumed(c)
}

func (s *suite) resumeRevivesNothing() {
	c := s.acquire(s.resource, s.long)
	s.release(c)
	_, err := s.resume(c, uuid.New())
	require.ErrorIs(s, err, driver.ErrLost)

	c = s.acquire(s.resource, s.long)
	require.NoError(s, s.d.Release(s.ctx, c, s.long))
	_, err = s.resume(fence.Claim{Resource: s.resource, Token: c.Token}, uuid.New())
	require.ErrorIs(s, err, driver.ErrLost, "what is kept is nobody's")

	c = s.acquire(s.resource+"/2", s.long)
	s.expire(c)
	_, err = s.d.(driver.Resumer).Resume(s.ctx, c, request(c.Resource, uuid.New(), s.long))
	require.ErrorIs(s, err, driver.ErrLost)
	s.acquire(c.Resource, s.long)
}

func (s *suite) endedContextResumesNothing() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	c := s.acquire(s.resource, s.long)
	_, err := s.d.(driver.Resumer).Resume(ctx, c, request(s.resource, uuid.New(), 0))
	require.ErrorIs(s, err, context.Canceled)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
}
