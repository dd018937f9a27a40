package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) {
	logging.Disable()
	testenv.Main(m)
}

// smoke is just enough of everything to see that it works.
var smoke = scale{
	series: 200 * time.Millisecond, rounds: 2,
	leases: 200, leaseTTL: 3 * time.Second, leaseWindow: 2 * time.Second,
	names: 300, nameTTL: 2 * time.Second, idle: 100 * time.Millisecond,
}

// newBench is a bench with a server of its own, whose command counts and keys are ours alone.
func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := openServer(t.Context(), testenv.NewRedis(t).URL())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.close()) })
	return &bench{smoke, s, newReport(io.Discard)}
}

var waiting = []library{ringfence, redislock10, redislock100, redsyncs, rueidislocks}

func TestTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	results, err := measureTurns(t.Context(), b, 4, []library{bareCommands, ringfence, redislockOnce, redsyncs, byDefault, rueidislocks})
	require.NoError(t, err)
	require.Len(t, results, 6)
	for _, r := range results {
		require.Len(t, r.perSecond, smoke.rounds)
		require.Len(t, r.allocations, smoke.rounds)
		for i := range r.perSecond {
			assert.Positive(t, r.perSecond[i])
			assert.Greater(t, r.allocations[i], 1.0)
		}
	}
}

func TestBareTurnIsTwoCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, err := b.open(t.Context(), bareCommands)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.close()) }()
	before, err := b.commands(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.turn(t.Context(), "x"))
	after, err := b.commands(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, after["set"]-before["set"])
	assert.EqualValues(t, 1, after["del"]-before["del"])
	assert.EqualValues(t, 2, after.total()-before.total())
}

func TestContention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, lib := range waiting {
		c, err := measureContention(t.Context(), b, lib, 4, 2*smoke.series)
		require.NoError(t, err, lib.name)
		require.NotEmpty(t, c.waits, lib.name)
		served := 0
		for _, n := range c.served {
			served += n
		}
		assert.Len(t, c.waits, served, lib.name)
		assert.Positive(t, c.waits[0], lib.name)
		assert.GreaterOrEqual(t, c.longest, percentile(c.waits, 99), lib.name)
		assert.GreaterOrEqual(t, c.commands, 2.0, lib.name)
	}
}

func TestHandover(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, lib := range waiting {
		h, err := measureHandover(t.Context(), b, lib, 2*smoke.series)
		require.NoError(t, err, lib.name)
		require.NotEmpty(t, h.times, lib.name)
		assert.Len(t, h.pings, len(h.times), lib.name)
		assert.Positive(t, percentile(h.times, 50), lib.name)
		assert.Positive(t, percentile(h.pings, 50), lib.name)
	}
}

// openDoor is a lock that lets everybody in.
type openDoor struct{}

func (openDoor) turn(context.Context, string) error { return nil }
func (openDoor) close() error                       { return nil }

func (openDoor) acquire(context.Context, string) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

func TestTwoHoldersAtOnceAreNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lib := library{"open door", func(*redis.Client) (locker, error) { return openDoor{}, nil }}
	_, err := measureContention(t.Context(), b, lib, 4, smoke.series)
	require.ErrorContains(t, err, "two holders at once")
	_, err = measureHandover(t.Context(), b, lib, smoke.series)
	assert.ErrorContains(t, err, "two holders at once")
}

func TestLeases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u, err := measureLeases(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, smoke.leases, u.alive)
	assert.Positive(t, u.leastLeft)
	assert.GreaterOrEqual(t, u.renewals, int64(smoke.leases))
	assert.Positive(t, u.cpu)
	assert.GreaterOrEqual(t, u.window, smoke.leaseWindow)
	assert.Positive(t, u.goroutinesMost)
}

func TestNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, err := measureNames(t.Context(), b)
	require.NoError(t, err)
	assert.Positive(t, r.keysMost)
	assert.Zero(t, r.keysLeft)
	assert.Greater(t, r.memoryMost, r.memoryBefore)
}
