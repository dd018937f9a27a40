package redislock_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
)

// commands counts a client's commands and pipelines: its round trips.
type commands struct{ n atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// before is a hook that is called before each command.
type before func()

func (before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f()
		return next(ctx, cmd)
	}
}

func (before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestL01_OneRoundTrip(t *testing.T) {
	t.Parallel()
	rdb, l, r := setUp(t)
	turn(t, l, r) // loads the scripts
	var sent commands
	rdb.AddHook(&sent)
	lease := acquire(t, l, r)
	assert.EqualValues(t, 1, sent.n.Load())
	_, err := l.TryAcquire(t.Context(), r)
	require.ErrorIs(t, err, lock.ErrHeld)
	assert.EqualValues(t, 2, sent.n.Load())
	require.NoError(t, lease.Release(t.Context()))
	assert.EqualValues(t, 3, sent.n.Load())
}
