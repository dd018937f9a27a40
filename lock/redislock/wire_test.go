package redislock_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
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

func TestL01_OneRoundTrip(t *testing.T) {
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

// TestC03_L03_LostReplyOfAnAcquire lets go-redis replay the script whose reply was lost.
func TestC03_L03_LostReplyOfAnAcquire(t *testing.T) {
	server := testenv.Redis(t)
	direct := client(t, server.URL())
	proxy := testenv.NewProxy(t, server.Addr())
	l := newLocker(t, client(t, proxy.URL(server.URL())), redislock.PlainCounter())
	r := server.Prefix(t) + "r"
	turn(t, l, r) // loads the scripts

	lost := proxy.LoseReply("evalsha")
	lease := acquire(t, l, r, lock.WithoutWaiting())
	<-lost
	assert.Equal(t, fence.Token(2), lease.Token())
	value, err := direct.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(value, lease.Claim().Holder.String()+" 2 "), value)
	counter, err := direct.Get(t.Context(), fenceKey(r)).Int64()
	require.NoError(t, err)
	assert.EqualValues(t, 2, counter, "the counter moved once for one acquire")
	require.NoError(t, lease.Release(t.Context()))
	assert.Equal(t, fence.Token(3), turn(t, l, r))
}

func TestL03_ReplayReturnsTheTokenStoredWithTheLease(t *testing.T) {
	rdb, l, r := setUp(t)
	lease := acquire(t, l, r)
	require.NoError(t, rdb.Incr(t.Context(), fenceKey(r)).Err())
	g, err := redislock.New(rdb).Acquire(t.Context(), driver.Request{Resource: r, Holder: lease.Claim().Holder, TTL: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, lease.Token(), g.Token, "read from the counter")
}

func TestL04_AbandonWorksOutOfMemory(t *testing.T) {
	rdb := client(t, testenv.NewRedis(t).URL())
	lease := acquire(t, newLocker(t, rdb), "r")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := redislock.New(rdb).Release(t.Context(), fence.Claim{Resource: "r", Holder: lease.Claim().Holder}, 0)
	require.ErrorContains(t, err, "OOM", "there is no tombstone")
	n, err := rdb.Exists(t.Context(), leaseKey("r")).Result()
	require.NoError(t, err)
	assert.Zero(t, n)
}

// TestC04_L04_CancelledAcquireLeavesNothing delays first the reply, then the request.
func TestC04_L04_CancelledAcquireLeavesNothing(t *testing.T) {
	server := testenv.Redis(t)
	direct := newLocker(t, client(t, server.URL()))
	for name, delay := range map[string]func(*testenv.Proxy, time.Duration){
		"reply":   (*testenv.Proxy).DelayReplies,
		"request": (*testenv.Proxy).DelayRequests,
	} {
		t.Run(name, func(t *testing.T) {
			proxy := testenv.NewProxy(t, server.Addr())
			l := newLocker(t, client(t, proxy.URL(server.URL())))
			r := server.Prefix(t) + "r"
			turn(t, l, r)
			delay(proxy, 500*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := l.Acquire(ctx, r)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(start), 300*time.Millisecond)
			delay(proxy, 0)
			require.NoError(t, l.Close(t.Context())) // waits for the clean-up
			lease, err := direct.TryAcquire(t.Context(), r)
			require.NoError(t, err)
			<-time.After(time.Until(start.Add(time.Second))) // when the late request has landed
			require.NoError(t, lease.Release(t.Context()))
			_, err = direct.TryAcquire(t.Context(), r)
			require.NoError(t, err)
		})
	}
}

// TestC06_SilentServer has a client whose own timeout is longer than the caller's.
func TestC06_SilentServer(t *testing.T) {
	server := testenv.Redis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	rdb := client(t, proxy.URL(server.URL())+"?read_timeout=5s&max_retries=-1")
	l := newLocker(t, rdb)
	r := server.Prefix(t) + "r"
	lease := acquire(t, l, r, lock.WithTTL(time.Second))
	proxy.Blackhole(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := l.Acquire(ctx, r+"2")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 300*time.Millisecond)

	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
	assert.Less(t, time.Since(start), 1500*time.Millisecond, "the loss was told when the client had waited enough")
}

func TestC07_L15_OutcomesAreApart(t *testing.T) {
	server := testenv.NewRedis(t)
	l := newLocker(t, client(t, server.URL()))
	acquire(t, l, "r")
	_, err := l.TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrHeld)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(ctx, "r")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrHeld)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
	server.Kill()
	_, err = l.TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.NotErrorIs(t, err, lock.ErrHeld)
	start := time.Now()
	_, err = l.Acquire(t.Context(), "r", lock.WithRetryFor(time.Second))
	require.ErrorIs(t, err, lock.ErrUnavailable)
	assert.Less(t, time.Since(start), 6*time.Second)

	server.Restart()
	acquire(t, l, "r2", lock.WithRetryFor(20*time.Second))
}

// TestL15_C08_ServerErrorsAreUnavailable has real servers refuse a script that would be granted.
func TestC08_L15_ServerErrorsAreUnavailable(t *testing.T) {
	server := testenv.NewRedis(t)
	admin := client(t, server.URL())
	l := newLocker(t, admin)
	turn(t, l, "r")
	for _, row := range []struct {
		name, says  string
		spoil, mend []any
	}{
		{"read-only replica", "READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"out of memory", "OOM", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"too few replicas", "NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"no permission", "NOPERM", []any{"ACL", "SETUSER", "default", "-evalsha", "-eval"}, []any{"ACL", "SETUSER", "default", "+@all"}},
		{"no permission inside", "", []any{"ACL", "SETUSER", "default", "-incr"}, []any{"ACL", "SETUSER", "default", "+@all"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, admin.Do(t.Context(), row.spoil...).Err())
			_, err := l.TryAcquire(t.Context(), "r")
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.NotErrorIs(t, err, lock.ErrHeld)
			require.ErrorContains(t, err, row.says)
			require.NoError(t, admin.Do(t.Context(), row.mend...).Err())
			n, err := admin.Exists(t.Context(), leaseKey("r")).Result()
			require.NoError(t, err)
			assert.Zero(t, n, "a lease was left")
			turn(t, l, "r")
		})
	}
}

func TestC09_ScriptsAreLoadedAgain(t *testing.T) {
	server := testenv.NewRedis(t)
	rdb := client(t, server.URL())
	l := newLocker(t, rdb)
	flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
	flush()
	lease := acquire(t, l, "r")
	flush()
	require.NoError(t, lease.Renew(t.Context(), time.Minute))
	flush()
	require.NoError(t, lease.Release(t.Context()))
	flush()
	d := redislock.New(rdb)
	require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "r", Holder: uuid.New()}, 0))
}

func TestC11_NamespacesAreApart(t *testing.T) {
	rdb, l, r := setUp(t)
	require.NoError(t, rdb.Set(t.Context(), r, "the user's", 0).Err())
	t.Cleanup(func() { rdb.Del(context.Background(), r) })
	acquire(t, l, r)
	value, err := rdb.Get(t.Context(), r).Result()
	require.NoError(t, err)
	assert.Equal(t, "the user's", value)
	acquire(t, l, fenceKey(r), lock.WithoutWaiting())
	acquire(t, l, "lock:"+r, lock.WithoutWaiting())
}

func TestC12_ExpiryIsTheTTLInMilliseconds(t *testing.T) {
	rdb, l, r := setUp(t)
	lease := acquire(t, l, r, lock.WithTTL(1500*time.Millisecond), lock.WithoutRenewal())
	ttl, err := rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 1000*time.Millisecond)
	assert.LessOrEqual(t, ttl, 1500*time.Millisecond)
	require.NoError(t, lease.Renew(t.Context(), 2*time.Second))
	ttl, err = rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Greater(t, ttl, 1500*time.Millisecond)
	assert.LessOrEqual(t, ttl, 2*time.Second)
	for _, bad := range []time.Duration{500 * time.Microsecond, 0, -time.Second} {
		_, err := l.TryAcquire(t.Context(), r+"bad", lock.WithTTL(bad))
		require.ErrorIs(t, err, fence.ErrInvalid)
		n, err := rdb.Exists(t.Context(), leaseKey(r+"bad")).Result()
		require.NoError(t, err)
		assert.Zero(t, n)
	}
}

func TestC19_L02_StaleHolderTouchesNothing(t *testing.T) {
	rdb, l, r := setUp(t)
	old := acquire(t, l, r, lock.WithTTL(50*time.Millisecond), lock.WithoutRenewal())
	next := acquire(t, l, r, lock.WithTTL(time.Minute), lock.WithoutRenewal())
	d := redislock.New(rdb) // asks the server even so
	before, err := rdb.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	require.ErrorIs(t, old.Renew(t.Context(), time.Hour), lock.ErrLost)
	require.ErrorIs(t, old.Release(t.Context()), lock.ErrLost)
	require.ErrorIs(t, d.Release(t.Context(), old.Claim(), 0), lock.ErrLost)
	after, err := rdb.Get(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Equal(t, before, after)
	ttl, err := rdb.PTTL(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, ttl, time.Minute)
	require.NoError(t, next.Release(t.Context()))
	require.ErrorIs(t, d.Release(t.Context(), old.Claim(), 0), lock.ErrLost)
	n, err := rdb.Exists(t.Context(), leaseKey(r)).Result()
	require.NoError(t, err)
	assert.Zero(t, n)
}

// TestInterop_PlainRecipe has a program that knows nothing of Ringfence compete for ticket-123.
func TestInterop_PlainRecipe(t *testing.T) {
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

func TestNew_PanicsOnNil(t *testing.T) {
	assert.Panics(t, func() { redislock.New(nil) })
}
