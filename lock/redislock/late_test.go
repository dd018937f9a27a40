package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

// hasty has a client that repeats requests after a time, and a network that holds the next request back for longer.
type hasty struct {
	*testing.T
	lock, direct *lock.Locker
	delay        time.Duration
	proxy        *testenv.Proxy
	landed       <-chan time.Time
}

func newHasty(t *testing.T, repeatsAfter time.Duration) *hasty {
	t.Helper()
	server := testenv.NewRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	o, err := redis.ParseURL(proxy.URL(server.URL()))
	require.NoError(t, err)
	o.ReadTimeout = repeatsAfter
	rdb := redis.NewClient(o)
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.Equal(t, repeatsAfter, redislock.New(rdb).Features().RepeatsAfter)
	h := &hasty{T: t, proxy: proxy, delay: 4 * repeatsAfter, lock: newLocker(t, rdb), direct: newLocker(t, client(t, server.URL()))}
	turn(t, h.lock, "r")
	_, err = h.lock.Break(t.Context(), "r") // all scripts are loaded
	require.NoError(t, err)
	return h
}

func (h *hasty) holdBackTheNext() {
	h.proxy.DelayRequests(h.delay)
	time.AfterFunc(h.delay/8, func() { h.proxy.DelayRequests(0) })
	h.landed = time.After(2 * h.delay)
}

func TestL04_LateCopyOfAnAcquire(t *testing.T) {
	t.Parallel()
	h := newHasty(t, 100*time.Millisecond)
	h.holdBackTheNext()
	require.NoError(t, acquire(t, h.lock, "r").Release(t.Context()))
	<-h.landed
	require.NoError(t, acquire(t, h.direct, "r", lock.WithoutWaiting()).Release(t.Context()))
}

func TestL23_LateCopyOfABreak(t *testing.T) {
	t.Parallel()
	h := newHasty(t, 100*time.Millisecond)
	acquire(t, h.direct, "r").Detach()
	h.holdBackTheNext()
	_, err := h.lock.Break(t.Context(), "r")
	require.NoError(t, err)
	next := acquire(t, h.direct, "r")
	<-h.landed
	require.NoError(t, next.Renew(t.Context(), time.Minute))
}

func TestL20_LateCopyOfAShortening(t *testing.T) {
	t.Parallel()
	h := newHasty(t, 200*time.Millisecond)
	lease := acquire(t, h.lock, "r", lock.WithTTL(30*time.Second))
	h.holdBackTheNext()
	require.NoError(t, lease.Renew(t.Context(), 3*time.Second))
	require.ErrorIs(t, lease.Renew(t.Context(), 30*time.Second), lock.ErrUnavailable)
	next := acquire(t, h.direct, "r")
	require.ErrorIs(t, lease.Err(), lock.ErrLost)
	require.NoError(t, next.Release(t.Context()))
}
