package redislock_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/redislock"
)

// TestConformance_Miniredis has a Redis that lives in the process, as the examples do.
func TestConformance_Miniredis(t *testing.T) {
	t.Parallel()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // by itself its keys would never expire
	require.NoError(t, m.Start())
	t.Cleanup(m.Close)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb) })
}
