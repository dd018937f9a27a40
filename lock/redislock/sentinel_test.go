package redislock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

func sentinelClient(t *testing.T, s *testenv.Sentinel) *redis.Client {
	t.Helper()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.MasterName(), SentinelAddrs: s.Addrs()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	return rdb
}

// TestSentinel_Failover kills the primary under leases and waiters.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	s := testenv.NewSentinel(t)
	l, other := newLocker(t, sentinelClient(t, s)), newLocker(t, sentinelClient(t, s))
	replica := client(t, s.Replica().URL())
	long, short := map[string]*lock.Lease{}, map[string]*lock.Lease{}
	tokens := map[string]fence.Token{}
	for i := range 4 {
		name := "long" + strconv.Itoa(i)
		long[name] = acquire(t, l, name, lock.WithTTL(30*time.Second))
		tokens[name] = long[name].Token()
		name = "short" + strconv.Itoa(i)
		short[name] = acquire(t, l, name, lock.WithTTL(900*time.Millisecond))
		tokens[name] = short[name].Token()
		name = "free" + strconv.Itoa(i)
		tokens[name] = turn(t, l, name)
	}
	// What the replica has not got when the primary dies is lost.
	require.Eventually(t, func() bool {
		n, err := replica.Exists(t.Context(), fenceKey("free3"), leaseKey("long3")).Result()
		return err == nil && n == 2
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, replica.ConfigSet(t.Context(), "replica-read-only", "no").Err())
	for _, name := range []string{"long0", "free0"} {
		require.NoError(t, replica.Del(t.Context(), leaseKey(name), fenceKey(name)).Err())
	}
	require.NoError(t, replica.Set(t.Context(), fenceKey("free1"), int64(tokens["free1"])-1000, 0).Err()) // rolled back

	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := other.Acquire(t.Context(), "short0", lock.WithRetryFor(time.Minute))
		assert.NoError(t, err)
		got <- lease
	}()
	require.Eventually(t, func() bool {
		info, err := other.Inspect(t.Context(), "short0")
		return err == nil && info.Waiters == 1
	}, 10*time.Second, time.Millisecond)

	s.KillPrimary()
	died := time.Now()
	for _, lease := range short {
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		assert.Less(t, time.Since(died), time.Second)
	}
	for _, err := range failures(t, other, "free2") {
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrHeld, "nobody holds it")
	}
	s.AwaitFailover()
	t.Logf("failover after %v", time.Since(died))
	within := func(name string) *lock.Lease { return acquire(t, other, name, lock.WithRetryFor(10*time.Second)) }
	for i := range 4 {
		lease := within("free" + strconv.Itoa(i))
		assert.Greater(t, lease.Token(), tokens["free"+strconv.Itoa(i)])
		require.NoError(t, lease.Release(t.Context()))
	}
	waited := <-got
	require.NotNil(t, waited)
	assert.Greater(t, waited.Token(), tokens["short0"])
	require.NoError(t, waited.Release(t.Context()))
	t.Logf("all is well after %v", time.Since(died))

	// The others have either survived, and the store has them, or it is told that they have not.
	took := within("long0")
	assert.Greater(t, took.Token(), tokens["long0"])
	require.ErrorIs(t, long["long0"].Renew(t.Context(), 30*time.Second), lock.ErrLost)
	require.NoError(t, took.Err())
	for _, name := range []string{"long1", "long2", "long3"} {
		_, err := other.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, lock.ErrHeld)
		require.NoError(t, long[name].Renew(t.Context(), 30*time.Second))
		info, err := other.Inspect(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, fence.Fingerprint(long[name].Claim().Holder), info.Holder)
		require.NoError(t, long[name].Release(t.Context()))
		assert.Greater(t, turn(t, other, name), tokens[name])
	}
}

// failures tries until a try succeeds, and returns what the others said.
func failures(t *testing.T, l *lock.Locker, resource string) (errs []error) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 30*time.Second; {
		lease, err := l.TryAcquire(t.Context(), resource)
		if err == nil {
			require.NoError(t, lease.Release(t.Context()))
			return errs
		}
		errs = append(errs, err)
	}
	require.NoError(t, errors.Join(errs...), "no try has succeeded")
	return nil
}

// TestSentinel_PrimaryPaused has a primary that comes back when another has taken its place. What it says
// then is not to be believed.
func TestSentinel_PrimaryPaused(t *testing.T) {
	t.Parallel()
	s := testenv.NewSentinel(t)
	l := newLocker(t, sentinelClient(t, s))
	old := acquire(t, l, "r", lock.WithTTL(time.Second))
	listener := uuid.New()
	d := redislock.New(sentinelClient(t, s))
	hears := listen(t, d, listener)
	<-hears.ready

	s.Primary().Pause()
	<-old.Context().Done()
	require.ErrorIs(t, context.Cause(old.Context()), lock.ErrLost)
	require.Error(t, <-hears.ended, "a subscription to a silent server")
	s.AwaitFailover()
	next := acquire(t, l, "r", lock.WithRetryFor(20*time.Second))
	assert.Greater(t, next.Token(), old.Token())
	s.Primary().Resume()
	s.AwaitSync()
	require.NoError(t, next.Renew(t.Context(), time.Minute))
	_, err := newLocker(t, sentinelClient(t, s)).TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrHeld)
	require.NoError(t, next.Release(t.Context()))
	assert.Greater(t, turn(t, l, "r"), next.Token())
}
