package locktest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// protocolCases are what every driver must do.
func protocolCases() []testCase {
	return []testCase{
		{"L01_FreeResourceIsGranted", (*suite).freeResourceIsGranted},
		{"L02_OnlyTheHolderReleases", (*suite).onlyTheHolderReleases},
		{"L02_OnlyTheHolderRenews", (*suite).onlyTheHolderRenews},
		{"L02_RenewAnswersEachInOrder", (*suite).renewAnswersEachInOrder},
		{"L03_ReplayReturnsTheStoredToken", (*suite).replayReturnsTheStoredToken},
		{"L04_AbandonEndsTheLease", (*suite).abandonEndsTheLease},
		{"L04_TombstoneStopsALateAcquire", (*suite).tombstoneStopsALateAcquire},
		{"C05_EndedContextSendsNothing", (*suite).endedContextSendsNothing},
		{"L14_LeaseExpires", (*suite).leaseExpires},
		{"L14_RenewalSetsTheEnd", (*suite).renewalSetsTheEnd},
		{"L16_NamesAreApart", (*suite).namesAreApart},
		{"L17_TokensRise", (*suite).tokensRise},
		{"L21_KeepLeavesItTaken", timed((*suite).keepLeavesItTaken)},
		{"OneHolderAtATime", (*suite).oneHolderAtATime},
	}
}

func (s *suite) freeResourceIsGranted() {
	g, err := s.try(s.ctx, uuid.New(), s.resource, s.long)
	require.NoError(s, err)
	assert.Positive(s, int64(g.Token))
	assert.GreaterOrEqual(s, g.TTL, s.long)
	left := s.requireHeld(s.resource)
	assert.Positive(s, left)
	assert.LessOrEqual(s, left, g.TTL)
}

func (s *suite) onlyTheHolderReleases() {
	c := s.acquire(s.resource, s.long)
	stranger := fence.Claim{Resource: s.resource, Token: c.Token, Holder: uuid.New()}
	nobody := fence.Claim{Resource: s.resource, Token: c.Token}
	require.ErrorIs(s, s.d.Release(s.ctx, stranger, 0), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, stranger, s.long), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, nobody, 0), driver.ErrLost)
	s.requireHeld(s.resource)
	s.release(c)
	require.ErrorIs(s, s.d.Release(s.ctx, c, 0), driver.ErrLost)
	next := s.acquire(s.resource, s.long)
	require.ErrorIs(s, s.d.Release(s.ctx, c, 0), driver.ErrLost, "a late release is not the next holder's")
	s.requireHeld(s.resource)
	s.release(next)
}

func (s *suite) onlyTheHolderRenews() {
	c := s.acquire(s.resource, s.long)
	stranger := fence.Claim{Resource: s.resource, Token: c.Token, Holder: uuid.New()}
	require.ErrorIs(s, s.renew(stranger, 10*s.long, true), driver.ErrLost)
	assert.LessOrEqual(s, s.requireHeld(s.resource), 2*s.long, "the refused renewal prolonged the lease")
	s.release(c)
	require.ErrorIs(s, s.renew(c, s.long, true), driver.ErrLost)
	s.acquire(s.resource, s.long) // the refused renewal created nothing
}

func (s *suite) renewAnswersEachInOrder() {
	const n = 20
	rs := make([]driver.Renewal, n)
	for i := range rs {
		c := s.acquire(s.resource+"/"+string(rune('a'+i)), s.long)
		if i%3 == 0 {
			c.Holder = uuid.New()
		}
		rs[i] = driver.Renewal{Claim: c, TTL: 3 * s.long}
	}
	errs := s.d.Renew(s.ctx, rs)
	require.Len(s, errs, n)
	for i, r := range rs {
		if i%3 == 0 {
			assert.ErrorIs(s, errs[i], driver.ErrLost)
			continue
		}
		assert.NoError(s, errs[i])
		assert.Greater(s, s.requireHeld(r.Claim.Resource), 2*s.long)
	}
	require.Empty(s, s.d.Renew(s.ctx, nil))
}

func (s *suite) replayReturnsTheStoredToken() {
	holder := uuid.New()
	first := s.acquireAs(holder, s.resource, s.long)
	replay := s.acquireAs(holder, s.resource, s.long)
	assert.Equal(s, first, replay)
	s.release(first)
	assert.Greater(s, s.acquire(s.resource, s.long).Token, first.Token)
}

func (s *suite) abandonEndsTheLease() {
	holder := uuid.New()
	s.acquireAs(holder, s.resource, s.long)
	s.abandon(s.resource, uuid.New())
	s.requireHeld(s.resource)
	s.abandon(s.resource, holder)
	holder = uuid.New()
	s.acquireAs(holder, s.resource, s.long)
	require.NoError(s, s.d.Release(s.ctx, fence.Claim{Resource: s.resource, Holder: holder}, s.long), "nothing is kept")
	s.acquire(s.resource, s.long)
}

func (s *suite) tombstoneStopsALateAcquire() {
	for _, landed := range []bool{false, true} {
		holder := uuid.New()
		if landed { // and a replay of it is still on its way
			s.acquireAs(holder, s.resource, s.long)
		}
		s.abandon(s.resource, holder)
		_, err := s.try(s.ctx, holder, s.resource, s.long)
		s.requireAbandoned(err)
		c := s.acquire(s.resource, s.long) // it took nothing, and binds nobody else
		s.release(c)
	}
}

func (s *suite) endedContextSendsNothing() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.try(ctx, uuid.New(), s.resource, s.long)
	require.ErrorIs(s, err, context.Canceled)
	c := s.acquire(s.resource, s.long)
	require.ErrorIs(s, s.d.Release(ctx, c, 0), context.Canceled)
	errs := s.d.Renew(ctx, []driver.Renewal{{Claim: c, TTL: 10 * s.long}})
	require.Len(s, errs, 1)
	require.ErrorIs(s, errs[0], context.Canceled)
	assert.LessOrEqual(s, s.requireHeld(s.resource), 2*s.long)
}

func (s *suite) leaseExpires() {
	c := s.acquire(s.resource, s.short)
	s.requireHeld(s.resource)
	next := s.acquireWhenFree(s.resource)
	assert.Greater(s, next.Token, c.Token)
	require.ErrorIs(s, s.renew(c, s.long, false), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, c, 0), driver.ErrLost)
	s.requireHeld(s.resource)
}

func (s *suite) renewalSetsTheEnd() {
	c := s.acquire(s.resource, s.long)
	require.NoError(s, s.renew(c, 10*s.long, false))
	assert.Greater(s, s.requireHeld(s.resource), 9*s.long)
	require.NoError(s, s.renew(c, s.long, false))
	assert.Greater(s, s.requireHeld(s.resource), 9*s.long, "shortened without being asked to")
	require.NoError(s, s.renew(c, s.long, true))
	assert.LessOrEqual(s, s.requireHeld(s.resource), max(s.long, s.d.Features().TTLStep))
	require.NoError(s, s.renew(c, s.short, true))
	s.acquireWhenFree(s.resource)
}

// oddNames are ends of names that a store may mix up.
var oddNames = []string{
	"", "}x", "{}", "a{b}c", "A}B{C", "a}b{c", "%7B", "{", "%", "%25", " ", "x ", "X ", "x", "x%20", "é", "e\u0301",
	":fence", "}:fence", "*", "a/b", "a\\b", "a'b", `a"b`, "../x", ".", "..", strings.Repeat("ü", 100),
}

func (s *suite) namesAreApart() {
	tokens := map[string]fence.Claim{}
	for _, name := range oddNames {
		tokens[name] = s.acquire(s.resource+name, s.long)
	}
	s.acquire("{lock:"+s.resource+"}:fence", s.long) // where a driver might keep its counter
	for _, name := range oddNames {
		s.release(tokens[name])
		for _, other := range oddNames {
			if _, held := tokens[other]; held && other != name {
				s.requireHeld(s.resource + other)
			}
		}
		delete(tokens, name)
	}
	long := strings.Repeat("r", fence.MaxResource-len(s.resource))
	s.release(s.acquire(s.resource+long, s.long))
}

func (s *suite) tokensRise() {
	var last fence.Token
	for i := range 50 {
		ttl := s.long
		if i%25 == 5 {
			ttl = s.short
		}
		c := s.acquireWhenFree(s.resource)
		if ttl == s.short {
			require.NoError(s, s.renew(c, s.short, true)) // leave it to expire
		} else {
			s.release(c)
		}
		require.Greater(s, c.Token, last)
		last = c.Token
	}
}

func (s *suite) keepLeavesItTaken() {
	c := s.acquire(s.resource, s.long)
	require.NoError(s, s.d.Release(s.ctx, c, s.short))
	left := s.requireHeld(s.resource)
	assert.LessOrEqual(s, left, 2*s.short)
	require.ErrorIs(s, s.renew(c, s.long, false), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, c, 0), driver.ErrLost)
	require.ErrorIs(s, s.d.Release(s.ctx, fence.Claim{Resource: s.resource, Token: c.Token}, 0), driver.ErrLost)
	s.requireHeld(s.resource)
	assert.Greater(s, s.acquireWhenFree(s.resource).Token, c.Token)
}

// oneHolderAtATime has many holders compete and checks that their times don't overlap and that tokens
// rise in the order of grants.
func (s *suite) oneHolderAtATime() {
	const holders, each = 8, 20
	var (
		wg     sync.WaitGroup
		inside atomic.Int32
		last   atomic.Int64
	)
	for range holders {
		wg.Go(func() {
			for range each {
				c := s.acquireWhenFree(s.resource)
				assert.EqualValues(s, 1, inside.Add(1), "two holders at once")
				assert.Greater(s, int64(c.Token), last.Swap(int64(c.Token)))
				s.pass(time.Millisecond)
				inside.Add(-1)
				assert.NoError(s, s.d.Release(s.ctx, c, 0))
			}
		})
	}
	wg.Wait()
}
