package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
)

// TestOutOfMemory has a server that takes nothing in any more (noeviction).
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	_, s := privateStore(t)
	maxMemory := func(n string) { require.NoError(t, s.rdb.ConfigSet(t.Context(), "maxmemory", n).Err()) }
	other := newStoreOn(t, s.rdb, "other")
	c, free := s.acquire(), newStoreOn(t, s.rdb, "free")
	ws := s.waiters(2)
	dead := other.acquire()
	maxMemory("1")

	isOOM := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "OOM")
		require.NotErrorIs(t, err, driver.ErrLost)
		var held *driver.Held
		require.NotErrorAs(t, err, &held)
	}
	_, err := free.Acquire(t.Context(), free.request(uuid.New()))
	isOOM(err)
	_, err = s.waiter().ask(0)
	isOOM(err)
	_, err = s.Resume(t.Context(), c, s.request(uuid.New()))
	isOOM(err)
	_, err = s.Break(t.Context(), s.request(uuid.New()), "")
	isOOM(err)
	_, err = s.Advance(t.Context(), c, c.Token)
	isOOM(err)
	isOOM(s.Raise(t.Context(), s.resource, c.Token+5))
	assert.False(t, free.exists(free.leaseKey()))
	require.NoError(t, s.Renew(t.Context(), []driver.Renewal{{Claim: c, TTL: time.Minute}})[0])
	assert.Greater(t, s.ttl(s.leaseKey()), 50*time.Second)
	s.release(c) // gives the turn, or nobody would get in when there is memory again
	assert.Equal(t, "turn "+ws[0].holder.String(), s.value())
	_, err = ws[0].ask(0)
	isOOM(err)
	isOOM(ws[0].Leave(t.Context(), s.resource, ws[0].holder, ws[0].listener)) // there is no tombstone
	assert.Equal(t, "turn "+ws[1].holder.String(), s.value())
	other.release(dead)
	assert.False(t, other.exists(other.leaseKey()))

	maxMemory("0")
	ws[1].granted(0)
	free.acquire()
}

// TestEviction has a server that throws out what it likes.
func TestEviction(t *testing.T) {
	t.Parallel()
	rdb := client(t, testenv.NewRedis(t, "--maxmemory-policy", "allkeys-lru").URL())
	l := newLocker(t, rdb)
	lease := acquire(t, l, "r", lock.WithTTL(900*time.Millisecond))
	acquired := time.Now()
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_ = rdb.Set(t.Context(), "x", "y", 0).Err() // the server frees memory when there is a command that takes some
	n, err := rdb.Exists(t.Context(), leaseKey("r"), fenceKey("r")).Result()
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, lease.Err())

	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
	assert.Less(t, time.Since(acquired), 800*time.Millisecond, "told at its deadline, not by the next renewal")
	assert.Greater(t, turn(t, l, "r"), lease.Token())
}
