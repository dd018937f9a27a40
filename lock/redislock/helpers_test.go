package redislock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
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

func atoi(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
