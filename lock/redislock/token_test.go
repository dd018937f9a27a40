package redislock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

func TestC01_TokensNeverPassThroughADouble(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]redislock.Option{nil, {redislock.PlainCounter()}} {
		rdb, l, r := setUp(t, opts...)
		require.NoError(t, rdb.Set(t.Context(), fenceKey(r), "9007199254740992", 0).Err())
		assert.Equal(t, fence.Token(9007199254740993), turn(t, l, r))
		assert.Equal(t, fence.Token(9007199254740994), turn(t, l, r))
		lease := acquire(t, l, r)
		value, err := rdb.Get(t.Context(), leaseKey(r)).Result()
		require.NoError(t, err)
		assert.Equal(t, "9007199254740995", strings.Fields(value)[1])
		require.NoError(t, lease.Release(t.Context()))
	}
	rdb, l, r := setUp(t, redislock.PlainCounter())
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), "99999999999999", 0).Err())
	assert.Equal(t, fence.Token(100000000000000), turn(t, l, r))
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), "9223372036854775806", 0).Err())
	assert.Equal(t, fence.Token(9223372036854775807), turn(t, l, r))
}

func TestPlainCounter_CountsFromOneAndNeverExpires(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t, redislock.PlainCounter())
	for want := range fence.Token(5) {
		assert.Equal(t, want+1, turn(t, l, r))
		ttl, err := rdb.TTL(t.Context(), fenceKey(r)).Result()
		require.NoError(t, err)
		assert.EqualValues(t, -1, ttl)
	}
	require.NoError(t, rdb.Expire(t.Context(), fenceKey(r), time.Hour).Err())
	assert.Equal(t, fence.Token(6), turn(t, l, r))
	ttl, err := rdb.TTL(t.Context(), fenceKey(r)).Result()
	require.NoError(t, err)
	assert.EqualValues(t, -1, ttl)
}

func TestC32_TokensRiseWhenTheCounterIsLost(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	first := turn(t, l, r)
	require.NoError(t, rdb.Del(t.Context(), fenceKey(r)).Err())
	second := turn(t, l, r)
	assert.Greater(t, second, first)
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), "17", 0).Err()) // rolled back
	assert.Greater(t, turn(t, l, r), second)
}

func TestC32_CounterOutlivesAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	ahead := time.Now().Add(48 * time.Hour).UnixMicro()
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), ahead, time.Minute).Err())
	assert.Equal(t, fence.Token(ahead+1), turn(t, l, r))
	ttl, err := rdb.PTTL(t.Context(), fenceKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 71*time.Hour, "the counter may expire before the clock has reached its value")
	assert.LessOrEqual(t, ttl, 72*time.Hour)
}

func TestC32_CounterOutlivesItsLease(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	expiry := func() time.Duration {
		ttl, err := rdb.PTTL(t.Context(), fenceKey(r)).Result()
		require.NoError(t, err)
		return ttl
	}
	lease := acquire(t, l, r, lock.WithTTL(time.Hour), lock.WithoutRenewal())
	assert.Greater(t, expiry(), 25*time.Hour-time.Minute)
	require.NoError(t, lease.Renew(t.Context(), 100*time.Hour))
	assert.Greater(t, expiry(), 124*time.Hour-time.Minute)
	require.NoError(t, lease.Renew(t.Context(), time.Hour))
	assert.Greater(t, expiry(), 124*time.Hour-time.Minute, "shortening a lease shortens no counter")
	require.NoError(t, lease.Release(t.Context()))
}

func TestTokens_FollowTheServerClock(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	before, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	token := turn(t, l, r)
	after, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, int64(token), before.UnixMicro())
	assert.LessOrEqual(t, int64(token), after.UnixMicro())
}

func TestScriptThatFailsLeavesNoLease(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	plain := newLocker(t, rdb, redislock.PlainCounter())
	for name, spoil := range map[string]func(key string) error{
		"exhausted": func(key string) error {
			return rdb.Set(t.Context(), key, "9223372036854775807", 0).Err()
		},
		"negative, plain": func(key string) error { return rdb.Set(t.Context(), key, "-5", 0).Err() },
		"not a number":    func(key string) error { return rdb.Set(t.Context(), key, "x", 0).Err() },
		"not a string":    func(key string) error { return rdb.LPush(t.Context(), key, "x").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			r := r + name
			require.NoError(t, spoil(fenceKey(r)))
			l := l
			if strings.HasSuffix(name, "plain") {
				l = plain
			}
			_, err := l.TryAcquire(t.Context(), r)
			if name == "exhausted" {
				require.ErrorIs(t, err, lock.ErrExhausted)
			} else {
				require.ErrorIs(t, err, lock.ErrUnavailable)
			}
			require.NotErrorIs(t, err, fence.ErrInvalid)
			require.NotErrorIs(t, err, lock.ErrHeld)
			n, err := rdb.Exists(t.Context(), leaseKey(r)).Result()
			require.NoError(t, err)
			assert.Zero(t, n)
		})
	}
}

// TestC32_ClockAheadForOneGrant waits until the counter has expired.
func TestC32_ClockAheadForOneGrant(t *testing.T) {
	t.Parallel()
	s := newStore(t, redislock.IdleTime(300*time.Millisecond))
	grant := func() fence.Token {
		r := s.request(uuid.New())
		r.TTL = 100 * time.Millisecond
		g, err := s.Acquire(t.Context(), r)
		require.NoError(t, err)
		s.release(fence.Claim{Resource: s.resource, Token: g.Token, Holder: r.Holder})
		return g.Token
	}
	first := grant()
	ahead := s.clock().Add(2 * time.Second).UnixMicro()
	s.set(s.fenceKey(), ahead, 0) // as a server would whose clock is ahead
	second := grant()
	require.Equal(t, fence.Token(ahead+1), second)
	require.Greater(t, second, first)
	s.awaitGone(s.fenceKey())
	assert.Greater(t, grant(), second)
}

func TestC32_TwoDaysAheadOutlastsTheIdleTime(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t, redislock.IdleTime(time.Second))
	ahead := time.Now().Add(48 * time.Hour).UnixMicro()
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), ahead, 0).Err())
	assert.Equal(t, fence.Token(ahead+1), turn(t, l, r))
	ttl, err := rdb.PTTL(t.Context(), fenceKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 48*time.Hour-time.Minute)
	assert.LessOrEqual(t, ttl, 48*time.Hour+time.Second)
	for range 3 {
		ahead++
		assert.Equal(t, fence.Token(ahead+1), turn(t, l, r))
	}
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	for _, bad := range []time.Duration{0, -time.Second, time.Microsecond} {
		assert.PanicsWithValue(t, "redislock.IdleTime("+bad.String()+"): want at least 1 ms", func() { redislock.IdleTime(bad) })
	}
	s := newStore(t, redislock.IdleTime(time.Second))
	r := s.request(uuid.New())
	r.TTL = 600 * time.Millisecond
	g, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	start := time.Now()
	c := fence.Claim{Resource: s.resource, Token: g.Token, Holder: r.Holder}
	for time.Since(start) < 2*time.Second {
		require.NoError(t, s.Renew(t.Context(), []driver.Renewal{{Claim: c, TTL: r.TTL}})[0])
		assert.Greater(t, s.ttl(s.fenceKey()), s.ttl(s.leaseKey()))
	}
	assert.Equal(t, c.Token.String(), s.get(s.fenceKey()), "a renewal moved the counter")
	s.awaitGone(s.leaseKey())
	assert.True(t, s.exists(s.fenceKey()), "the counter has gone with the lease")
	s.awaitGone(s.fenceKey())
}

// TestC33_FlushAll loses all that the store knows.
func TestC33_FlushAll(t *testing.T) {
	t.Parallel()
	_, s := privateStore(t)
	plain := newStoreOn(t, s.rdb, "plain", redislock.PlainCounter())
	mark := s.acquire().Token
	plain.release(plain.acquire())
	plain.release(plain.acquire())
	w := s.waiter()
	w.queued(0)
	require.NoError(t, s.rdb.FlushAll(t.Context()).Err())
	assert.Greater(t, w.granted(0).Token, mark)
	assert.Equal(t, fence.Token(1), plain.acquire().Token, "that is what the clock is for")
	require.NoError(t, plain.Raise(t.Context(), plain.resource, 2))
	require.NoError(t, plain.rdb.Del(t.Context(), plain.leaseKey()).Err())
	assert.Equal(t, fence.Token(3), plain.acquire().Token)
}

// TestC01_WaitersTokensRise grants in line, with a counter that a double can't hold.
func TestC01_WaitersTokensRise(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		s.set(s.fenceKey(), "9007199254740991", 0)
		c := s.acquire()
		for want := fence.Token(9007199254740993); want < 9007199254740999; want++ {
			w := s.waiter()
			w.queued(0)
			s.release(c)
			c = w.granted(0)
			require.Equal(t, want, c.Token)
		}
	})
}
