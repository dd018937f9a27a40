package locktest

import (
	"context"
	"math"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// raiseCases are what a driver must do whose tokens can be lifted.
func raiseCases() []testCase {
	return []testCase{
		{"L19_RaiseLiftsLaterTokens", (*suite).raiseLiftsLaterTokens},
		{"L19_AdvanceLiftsTheToken", (*suite).advanceLiftsTheToken},
		{"L19_OnlyTheHolderAdvances", (*suite).onlyTheHolderAdvances},
		{"L19_TokensEnd", (*suite).tokensEnd},
		{"L03_ReplayedAdvanceReturnsTheStoredToken", (*suite).replayedAdvanceReturnsTheStoredToken},
		{"C01_LiftedTokensAreExact", (*suite).liftedTokensAreExact},
		{"C05_EndedContextRaisesNothing", (*suite).endedContextRaisesNothing},
	}
}

func (s *suite) raise(past fence.Token) {
	s.Helper()
	require.NoError(s, s.d.(driver.Raiser).Raise(s.ctx, s.resource, past))
}

func (s *suite) advance(c fence.Claim, past fence.Token) (fence.Token, error) {
	return s.d.(driver.Raiser).Advance(s.ctx, c, past)
}

// next acquires and releases.
func (s *suite) next() fence.Token {
	s.Helper()
	c := s.acquire(s.resource, s.long)
	s.release(c)
	return c.Token
}

func (s *suite) raiseLiftsLaterTokens() {
	const far = 1_000_000_000_000
	first := s.next()
	s.raise(first + far)
	c := s.acquire(s.resource, s.long)
	assert.Greater(s, c.Token, first+far)
	s.raise(c.Token + far)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long), "the lease's own token doesn't change")
	require.NoError(s, s.renew(c, s.long, false))
	s.release(c)
	second := s.next()
	assert.Greater(s, second, c.Token+far)
	s.raise(first)
	s.raise(1)
	assert.Greater(s, s.next(), second, "it was lowered")
}

func (s *suite) advanceLiftsTheToken() {
	const far = 1_000_000_000_000
	c := s.acquire(s.resource, s.long)
	left := s.requireHeld(s.resource)
	token, err := s.advance(c, c.Token+far)
	require.NoError(s, err)
	assert.Greater(s, token, c.Token+far)
	c.Token = token
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long), "it is not the stored token")
	if left > 0 {
		assert.LessOrEqual(s, s.requireHeld(s.resource), left)
		assert.Greater(s, s.requireHeld(s.resource), s.long/2)
	}

	higher, err := s.advance(c, 1) // past less than it has
	require.NoError(s, err)
	assert.Greater(s, higher, token)
	require.NoError(s, s.renew(c, s.long, false), "renewal looks at the holder alone")
	c.Token = higher
	s.release(c)
	assert.Greater(s, s.next(), higher)
}

func (s *suite) onlyTheHolderAdvances() {
	c := s.acquire(s.resource, s.long)
	for what, wrong := range map[string]fence.Claim{
		"another holder":  {Resource: c.Resource, Token: c.Token, Holder: uuid.New()},
		"no holder":       {Resource: c.Resource, Token: c.Token},
		"a free resource": {Resource: c.Resource + "/free", Token: c.Token, Holder: c.Holder},
	} {
		_, err := s.advance(wrong, c.Token+10)
		assert.ErrorIs(s, err, driver.ErrLost, what)
	}
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.acquire(s.resource+"/free", s.long)
	s.expire(c)
	_, err := s.advance(c, c.Token)
	require.ErrorIs(s, err, driver.ErrLost)
	s.acquire(s.resource, s.long)
}

func (s *suite) replayedAdvanceReturnsTheStoredToken() {
	c := s.acquire(s.resource, s.long)
	past := c.Token + 10
	token, err := s.advance(c, past)
	require.NoError(s, err)
	for range 2 {
		replay, err := s.advance(c, past)
		require.NoError(s, err)
		assert.Equal(s, token, replay)
	}
	higher, err := s.advance(c, token) // another mark: the stored token is no answer
	require.NoError(s, err)
	assert.Greater(s, higher, token)
}

// tokensEnd reaches the last token. Only this resource may have none left.
func (s *suite) tokensEnd() {
	require.ErrorIs(s, s.d.(driver.Raiser).Raise(s.ctx, s.resource, math.MaxInt64), driver.ErrExhausted)
	c := s.acquire(s.resource, s.long)
	_, err := s.advance(c, math.MaxInt64)
	require.ErrorIs(s, err, driver.ErrExhausted)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.release(c)

	s.raise(math.MaxInt64 - 1)
	c = s.acquire(s.resource, s.long)
	assert.EqualValues(s, math.MaxInt64, c.Token)
	_, err = s.advance(c, 1)
	require.ErrorIs(s, err, driver.ErrExhausted)
	require.NoError(s, s.renew(c, s.long, false))
	s.release(c)
	for range 2 { // the first has left nothing behind
		_, err = s.try(s.ctx, uuid.New(), s.resource, s.long)
		require.ErrorIs(s, err, driver.ErrExhausted)
	}
	s.acquire(s.resource+"/other", s.long)
}

// liftedTokensAreExact lifts to numbers that a double, or a comparison of texts, takes for others.
func (s *suite) liftedTokensAreExact() {
	for _, past := range []fence.Token{
		1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 3,
		9_999_999_999_999_999, 10_000_000_000_000_000, 99_999_999_999_999_999, 100_000_000_000_000_001,
		1<<62 + 1, 1<<62 + 2,
	} {
		s.raise(past)
		c := s.acquire(s.resource, s.long)
		assert.Equal(s, past+1, c.Token)
		token, err := s.advance(c, past+1)
		require.NoError(s, err)
		assert.Equal(s, past+2, token)
		replay, err := s.advance(c, past+1)
		require.NoError(s, err)
		assert.Equal(s, token, replay)
		s.release(c)
		s.raise(past - 1)
		assert.Equal(s, past+3, s.next())
		s.resource += "'"
	}
}

func (s *suite) endedContextRaisesNothing() {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	c := s.acquire(s.resource, s.long)
	far := c.Token + 1<<60
	require.ErrorIs(s, s.d.(driver.Raiser).Raise(ctx, s.resource, far), context.Canceled)
	_, err := s.d.(driver.Raiser).Advance(ctx, c, far)
	require.ErrorIs(s, err, context.Canceled)
	assert.Equal(s, c, s.acquireAs(c.Holder, s.resource, s.long))
	s.release(c)
	assert.Less(s, s.next(), far)
}
