package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/redislock"
)

// obedientClient returns a client that looks at deadlines.
func obedientClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.ContextTimeoutEnabled = true
	rdb := redis.NewClient(o)
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	return rdb
}

func TestConformance_ContextTimeoutEnabled(t *testing.T) {
	t.Parallel()
	rdb := obedientClient(t, testenv.Redis(t).URL())
	require.True(t, redislock.New(rdb).Features().ObeysDeadline)
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb) })
}

// TestC06_ObeysDeadlines has a server that stands still, one that can't be reached, and one whose network is silent.
func TestC06_ObeysDeadlines(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	stands := obedientClient(t, server.URL())
	silent := obedientClient(t, proxy.URL(server.URL()))
	for _, rdb := range []*redis.Client{stands, silent} {
		turn(t, newLocker(t, rdb), "r")
	}
	server.Pause()
	proxy.Blackhole(true)
	defer server.Resume()
	for name, rdb := range map[string]*redis.Client{"stands still": stands, "is silent": silent, "can't be reached": obedientClient(t, "redis://127.0.0.1:1/0")} {
		l := newLocker(t, rdb)
		for range 5 { // all connections of the pool, and those that are made anew
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := l.Acquire(ctx, "r")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, lock.ErrUnavailable, name)
			assert.Less(t, time.Since(start), 300*time.Millisecond, name)
		}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := l.Acquire(ctx, "r")
		require.ErrorIs(t, err, context.Canceled, name)
		assert.Less(t, time.Since(start), 600*time.Millisecond, name)
	}
}
