package redislock_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/redislock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// client returns a client of the address, closed with the test.
func client(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.NoError(t, rdb.Ping(context.Background()).Err())
	return rdb
}

func TestConformance(t *testing.T) {
	rdb := client(t, testenv.Redis(t).URL())
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb) })
}

func TestConformance_PlainCounter(t *testing.T) {
	rdb := client(t, testenv.Redis(t).URL())
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb, redislock.PlainCounter()) })
}
