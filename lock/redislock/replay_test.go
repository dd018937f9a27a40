package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// TestC03_L03_LostReplyOfAnAcquire lets go-redis replay the script whose reply was lost.
func TestC03_L03_LostReplyOfAnAcquire(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	direct := client(t, server.URL())
	proxy := testenv.NewProxy(t, server.Addr())
	l := newLocker(t, client(t, proxy.URL(server.URL())), redislock.PlainCounter())
	r := server.Prefix(t) + "r"
	turn(t, l, r) // loads the scripts

	lost := proxy.LoseReply("evalsha")
	lease := acquire(t, l, r, lock.WithoutWaiting())
	<-lost
	assert.Equal(t, fence.Token(2), lease.Token())
	value, err := direct.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(value, lease.Claim().Holder.String()+" 2 "), value)
	counter, err := direct.Get(t.Context(), fenceKey(r)).Int64()
	require.NoError(t, err)
	assert.EqualValues(t, 2, counter, "the counter moved once for one acquire")
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, fence.Token(3), turn(t, l, r))
}

func TestL03_ReplayReturnsTheTokenStoredWithTheLease(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	lease := acquire(t, l, r)
	require.NoError(t, rdb.Incr(t.Context(), fenceKey(r)).Err())
	g, err := redislock.New(rdb).Acquire(t.Context(), driver.Request{Resource: r, Holder: lease.Claim().Holder, TTL: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, lease.Token(), g.Token, "read from the counter")
}

func TestL04_AbandonWorksOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := client(t, testenv.NewRedis(t).URL())
	lease := acquire(t, newLocker(t, rdb), "r")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := redislock.New(rdb).Release(t.Context(), fence.Claim{Resource: "r", Holder: lease.Claim().Holder}, 0)
	require.ErrorContains(t, err, "OOM", "there is no tombstone")
	n, err := rdb.Exists(t.Context(), leaseKey("r")).Result()
	require.NoError(t, err)
	assert.Zero(t, n)
}

// TestC04_L04_CancelledAcquireLeavesNothing delays first the reply, then the request.
func TestC04_L04_CancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	direct := newLocker(t, client(t, server.URL()))
	for name, delay := range map[string]func(*testenv.Proxy, time.Duration){
		"reply":   (*testenv.Proxy).DelayReplies,
		"request": (*testenv.Proxy).DelayRequests,
	} {
		t.Run(name, func(t *testing.T) {
			proxy := testenv.NewProxy(t, server.Addr())
			l := newLocker(t, client(t, proxy.URL(server.URL())))
			r := server.Prefix(t) + "r"
			turn(t, l, r)
			delay(proxy, 500*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := l.Acquire(ctx, r)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(start), 300*time.Millisecond)
			delay(proxy, 0)
			require.NoError(t, l.Close(t.Context())) // waits for the clean-up
			lease, err := direct.TryAcquire(t.Context(), r)
			require.NoError(t, err)
			<-time.After(time.Until(start.Add(time.Second))) // when the late request has landed
			require.NoError(t, lease.Release(t.Context()))
			_, err = direct.TryAcquire(t.Context(), r)
			require.NoError(t, err)
		})
	}
}
