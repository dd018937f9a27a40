package redislock_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

func TestL19_RaiseIsExactAndOnlyUpwards(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		for _, past := range []fence.Token{9007199254740991, 9007199254740992, 9007199254740993, 9223372036854775805} {
			require.NoError(t, s.Raise(s.Context(), s.resource, past))
			assert.Equal(t, past.String(), s.get(s.fenceKey()))
			require.NoError(t, s.Raise(s.Context(), s.resource, past-1))
			require.NoError(t, s.Raise(s.Context(), s.resource, 5))
			assert.Equal(t, past.String(), s.get(s.fenceKey()), "lowered")
			c := s.acquire()
			assert.Equal(t, past+1, c.Token)
			s.release(c)
		}
		s.set(s.fenceKey(), "-7", 0)
		require.NoError(t, s.Raise(s.Context(), s.resource, 1))
		assert.Equal(t, "1", s.get(s.fenceKey()))
		s.set(s.fenceKey(), "x", 0)
		require.ErrorContains(t, s.Raise(s.Context(), s.resource, 1), "not an integer")
		assert.Equal(t, "x", s.get(s.fenceKey()))
	})
}

func TestRaise_CounterExpiresOrDoesNot(t *testing.T) {
	t.Parallel()
	s, plain := newStore(t), newStore(t, redislock.PlainCounter())
	require.NoError(t, plain.Raise(t.Context(), plain.resource, 100))
	assert.EqualValues(t, -1, plain.ttl(plain.fenceKey()))
	require.NoError(t, s.Raise(t.Context(), s.resource, 100))
	assert.Greater(t, s.ttl(s.fenceKey()), 23*time.Hour)
	assert.LessOrEqual(t, s.ttl(s.fenceKey()), 24*time.Hour)
	ahead := fence.Token(time.Now().Add(48 * time.Hour).UnixMicro())
	require.NoError(t, s.Raise(t.Context(), s.resource, ahead))
	assert.Greater(t, s.ttl(s.fenceKey()), 71*time.Hour)
}

func TestL19_AtTheTopThereIsNoneLeft(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		const top = fence.Token(math.MaxInt64)
		c := s.acquire()
		same := s.unchanged()
		require.ErrorIs(t, s.Raise(s.Context(), s.resource, top), driver.ErrExhausted)
		_, err := s.Advance(s.Context(), c, top)
		require.ErrorIs(t, err, driver.ErrExhausted)
		same()

		token, err := s.Advance(s.Context(), c, top-1)
		require.NoError(t, err)
		assert.Equal(t, top, token)
		c.Token = top
		same = s.unchanged()
		_, err = s.Advance(s.Context(), c, 5)
		require.ErrorIs(t, err, driver.ErrExhausted)
		_, err = s.Resume(s.Context(), c, s.request(uuid.New()))
		require.ErrorIs(t, err, driver.ErrExhausted)
		_, err = s.Break(s.Context(), s.request(uuid.New()), "")
		require.ErrorIs(t, err, driver.ErrExhausted)
		require.NoError(t, s.Raise(s.Context(), s.resource, top-1))
		same()
		s.release(c)
		_, err = s.Acquire(s.Context(), s.request(uuid.New()))
		require.ErrorIs(t, err, driver.ErrExhausted)
		assert.Equal(t, top.String(), s.get(s.fenceKey()), "the counter is poisoned")
		assert.False(t, s.exists(s.leaseKey()))
		_, err = s.waiter().ask(0)
		require.ErrorIs(t, err, driver.ErrExhausted)
	})
}

func TestL19_AdvanceGivesTheLeaseANewToken(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		c := s.acquire()
		past := fence.Token(9007199254740992)
		before := s.ttl(s.leaseKey())
		token, err := s.Advance(s.Context(), c, past)
		require.NoError(t, err)
		assert.Equal(t, past+1, token)
		assert.Equal(t, fmt.Sprintf("%v %v %s", c.Holder, token, s.request(uuid.Nil).Label), s.value())
		assert.LessOrEqual(t, s.ttl(s.leaseKey()), before)
		assert.Greater(t, s.ttl(s.leaseKey()), before-5*time.Second)
		assert.Equal(t, token.String(), s.get(s.fenceKey()))

		same := s.unchanged()
		replay, err := s.Advance(s.Context(), c, past)
		require.NoError(t, err)
		assert.Equal(t, token, replay)
		same()
		c.Token = token
		again, err := s.Advance(s.Context(), c, past) // past is no mark to get over, but c's token is refused
		require.NoError(t, err)
		assert.Equal(t, token+1, again)

		for _, stranger := range []fence.Claim{{Token: again, Holder: uuid.New()}, {Token: again}} {
			stranger.Resource = s.resource
			same := s.unchanged()
			_, err := s.Advance(s.Context(), stranger, again)
			require.ErrorIs(t, err, driver.ErrLost)
			same()
		}
		s.release(c)
		_, err = s.Advance(s.Context(), c, again)
		require.ErrorIs(t, err, driver.ErrLost)
		assert.False(t, s.exists(s.leaseKey()))
	})
}

func TestRaise_PlainCounterLosesItsExpiry(t *testing.T) {
	t.Parallel()
	s := newStore(t, redislock.PlainCounter())
	s.set(s.fenceKey(), "100", time.Minute) // from when it was none
	require.NoError(t, s.Raise(t.Context(), s.resource, 50))
	assert.Equal(t, time.Duration(-1), s.rdb.PTTL(t.Context(), s.fenceKey()).Val())
}
