package redislock_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

// setUp returns a client of the shared server, a Locker on it and a resource name of the test's own.
func setUp(t *testing.T, opts ...redislock.Option) (*redis.Client, *lock.Locker, string) {
	t.Helper()
	server := testenv.Redis(t)
	rdb := client(t, server.URL())
	return rdb, newLocker(t, rdb, opts...), server.Prefix(t) + "r"
}

func newLocker(t *testing.T, rdb redis.UniversalClient, opts ...redislock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(redislock.New(rdb, opts...))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.Close(ctx) // some tests leave no server to release anything on
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, resource string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), resource, opts...)
	require.NoError(t, err)
	return lease
}

// turn acquires, releases and returns the token.
func turn(t *testing.T, l *lock.Locker, resource string) fence.Token {
	t.Helper()
	lease := acquire(t, l, resource)
	require.NoError(t, lease.Release(t.Context()))
	return lease.Token()
}

func leaseKey(resource string) string { return "lock:" + resource }
func fenceKey(resource string) string { return "{lock:" + resource + "}:fence" }

func TestC01_TokensNeverPassThroughADouble(t *testing.T) {
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
	rdb, l, r := setUp(t)
	first := turn(t, l, r)
	require.NoError(t, rdb.Del(t.Context(), fenceKey(r)).Err())
	second := turn(t, l, r)
	assert.Greater(t, second, first)
	require.NoError(t, rdb.Set(t.Context(), fenceKey(r), "17", 0).Err()) // rolled back
	assert.Greater(t, turn(t, l, r), second)
}

func TestC32_CounterOutlivesAClockThatWasAhead(t *testing.T) {
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
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.NotErrorIs(t, err, fence.ErrInvalid)
			require.NotErrorIs(t, err, lock.ErrHeld)
			n, err := rdb.Exists(t.Context(), leaseKey(r)).Result()
			require.NoError(t, err)
			assert.Zero(t, n)
		})
	}
}

func TestC16_NamesDoNotCollide(t *testing.T) {
	rdb, _, r := setUp(t)
	l := newLocker(t, rdb)
	seen := map[string]bool{}
	for i := range 300 {
		name := r + strconv.Itoa(i)
		lease := acquire(t, l, name, lock.WithoutWaiting())
		value, err := rdb.Get(t.Context(), leaseKey(name)).Result()
		require.NoError(t, err)
		require.False(t, seen[value])
		seen[value] = true
		require.Contains(t, value, lease.Claim().Holder.String())
	}
}
