package redislock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

func TestC11_NamespacesAreApart(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	require.NoError(t, rdb.Set(t.Context(), r, "the user's", 0).Err())
	t.Cleanup(func() { rdb.Del(context.Background(), r) })
	acquire(t, l, r)
	value, err := rdb.Get(t.Context(), r).Result()
	require.NoError(t, err)
	assert.Equal(t, "the user's", value)
	acquire(t, l, fenceKey(r), lock.WithoutWaiting())
	acquire(t, l, "lock:"+r, lock.WithoutWaiting())
}

func TestC12_ExpiryIsTheTTLInMilliseconds(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	lease := acquire(t, l, r, lock.WithTTL(1500*time.Millisecond), lock.WithoutRenewal())
	ttl, err := rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 1000*time.Millisecond)
	assert.LessOrEqual(t, ttl, 1500*time.Millisecond)
	require.NoError(t, lease.Renew(t.Context(), 2*time.Second))
	ttl, err = rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 1500*time.Millisecond)
	assert.LessOrEqual(t, ttl, 2*time.Second)
	for _, bad := range []time.Duration{500 * time.Microsecond, 0, -time.Second} {
		_, err := l.TryAcquire(t.Context(), r+"bad", lock.WithTTL(bad))
		require.ErrorIs(t, err, fence.ErrInvalid)
		n, err := rdb.Exists(t.Context(), leaseKey(r+"bad")).Result()
		require.NoError(t, err)
		assert.Zero(t, n)
	}
}

func TestC19_L02_StaleHolderTouchesNothing(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	old := acquire(t, l, r, lock.WithTTL(50*time.Millisecond), lock.WithoutRenewal())
	next := acquire(t, l, r, lock.WithTTL(time.Minute), lock.WithoutRenewal())
	d := redislock.New(rdb) // asks the server even so
	before, err := rdb.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	require.ErrorIs(t, old.Renew(t.Context(), time.Hour), lock.ErrLost)
	require.ErrorIs(t, old.Release(t.Context()), lock.ErrLost)
	require.ErrorIs(t, d.Release(t.Context(), old.Claim(), 0), lock.ErrLost)
	after, err := rdb.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Equal(t, before, after)
	ttl, err := rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, ttl, time.Minute)
	require.NoError(t, next.Release(t.Context()))
	require.ErrorIs(t, d.Release(t.Context(), old.Claim(), 0), lock.ErrLost)
	n, err := rdb.Exists(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestC16_NamesDoNotCollide(t *testing.T) {
	t.Parallel()
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
