package redislock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
)

// TestInterop_PlainRecipe has a program that knows nothing of Ringfence compete for ticket-123.
func TestInterop_PlainRecipe(t *testing.T) {
	t.Parallel()
	rdb := client(t, testenv.NewRedis(t).URL())
	l := newLocker(t, rdb)
	const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	var (
		wg     sync.WaitGroup
		inside atomic.Int32
	)
	section := func() {
		assert.EqualValues(t, 1, inside.Add(1), "two holders at once")
		inside.Add(-1)
	}
	wg.Go(func() {
		for n := 0; n < 50; {
			token := uuid.NewString()
			ok, err := rdb.SetNX(t.Context(), "lock:ticket-123", token, time.Minute).Result()
			if !assert.NoError(t, err) {
				return
			}
			if !ok {
				continue
			}
			n++
			section()
			assert.NoError(t, rdb.Eval(t.Context(), compareAndDelete, []string{"lock:ticket-123"}, token).Err())
		}
	})
	wg.Go(func() {
		for n := 0; n < 50; {
			lease, err := l.TryAcquire(t.Context(), "ticket-123")
			if err != nil {
				if !assert.ErrorIs(t, err, lock.ErrHeld) {
					return
				}
				continue
			}
			n++
			section()
			assert.NoError(t, lease.Release(t.Context()))
		}
	})
	wg.Go(func() {
		for range 50 {
			lease, err := l.Acquire(t.Context(), "ticket-123")
			if !assert.NoError(t, err) {
				return
			}
			section()
			assert.NoError(t, lease.Release(t.Context()))
		}
	})
	wg.Wait()

	require.NoError(t, rdb.Set(t.Context(), "lock:ticket-123", "x", 0).Err()) // without an expiry
	_, err := l.TryAcquire(t.Context(), "ticket-123")
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Zero(t, held.RetryAfter)
	require.NoError(t, rdb.Del(t.Context(), "lock:ticket-123").Err())
	require.NoError(t, rdb.LPush(t.Context(), "lock:ticket-123", "x").Err())
	_, err = l.TryAcquire(t.Context(), "ticket-123")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorContains(t, err, "WRONGTYPE")
}
