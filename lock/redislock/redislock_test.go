package redislock_test

import (
	"context"
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/redislock"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("4") // they wait more than they work
	}
	// A client that has been closed while its server was down ends this within a second.
	testenv.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

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
	t.Parallel()
	rdb := client(t, testenv.Redis(t).URL())
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb) })
}

func TestConformance_PlainCounter(t *testing.T) {
	t.Parallel()
	rdb := client(t, testenv.Redis(t).URL())
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb, redislock.PlainCounter()) })
}

func TestNew_PanicsOnNil(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { redislock.New(nil) })
}

func TestNew_PanicsOnARing(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer func() { _ = ring.Close() }()
	assert.Panics(t, func() { redislock.New(ring) })
}
