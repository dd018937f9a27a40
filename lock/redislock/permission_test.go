package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// permissions are all that the driver needs, as the package's documentation has it.
var permissions = []any{
	"resetkeys", "~lock:*", "~{lock:*", "resetchannels", "&ringfence:*", "-@all",
	"+eval", "+evalsha", "+get", "+mget", "+set", "+del", "+exists", "+incr", "+expire", "+pexpire", "+pexpireat", "+persist", "+pttl", "+time",
	"+zadd", "+zcard", "+zmscore", "+zrange", "+zrank", "+zrem", "+zremrangebyrank", "+zremrangebyscore", "+zscore",
	"+publish", "+subscribe", "+unsubscribe", "+ping",
}

// user is a store whose client may do only what the rules allow.
func user(t *testing.T, admin *redis.Client, resource string, rules ...any) *store {
	t.Helper()
	name := "u" + strings.ReplaceAll(uuid.NewString(), "-", "")
	require.NoError(t, admin.Do(t.Context(), append([]any{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...).Err())
	o := *admin.Options()
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr, Username: name, Password: "secret"})
	t.Cleanup(func() { _ = rdb.Close() })
	return newStoreOn(t, rdb, resource)
}

// TestPermissions has a user that may do what is documented, and nothing else, do everything.
func TestPermissions(t *testing.T) {
	t.Parallel()
	_, admin := privateStore(t)
	s := user(t, admin.rdb, "r{1}%", permissions...)
	for _, idle := range []bool{true, false} {
		if !idle {
			s.Driver = redislock.New(s.rdb, redislock.PlainCounter())
		}
		c := s.acquire()
		ws := []*waiter{s.waiter(), s.waiter(), s.waiter()}
		for _, w := range ws {
			w.queued(0)
			w.ticket = 0
			w.queued(0) // a replay
		}
		l := listen(t, s.Driver, ws[0].listener)
		<-l.ready
		ws[0].ticket -= int64(time.Hour / time.Microsecond)
		ws[0].queued(0)
		ws[1].queued(0)
		require.NoError(t, s.Renew(t.Context(), []driver.Renewal{{Claim: c, TTL: time.Minute}})[0])
		s.release(c)
		assert.Equal(t, driver.Turn{Holder: ws[0].holder}, <-l.turns)
		c = ws[0].granted(0)
		require.NoError(t, s.Raise(t.Context(), s.resource, c.Token+5))
		token, err := s.Advance(t.Context(), c, c.Token+7)
		require.NoError(t, err)
		c.Token = token
		r := s.request(uuid.New())
		_, err = s.Resume(t.Context(), c, r)
		require.NoError(t, err)
		info, err := s.Inspect(t.Context(), s.resource)
		require.NoError(t, err)
		assert.Equal(t, 2, info.Waiters)
		r2 := s.request(uuid.New())
		g, err := s.Break(t.Context(), r2, info.Holder)
		require.NoError(t, err)
		require.NoError(t, s.Release(t.Context(), fence.Claim{Resource: s.resource, Token: g.Token, Holder: r2.Holder}, 50*time.Millisecond))
		admin.awaitGone("lock:r%7B1%7D%25")
		ws[2].granted(time.Hour)
		for _, w := range ws {
			w.leave()
		}
		l.end()
		require.ErrorIs(t, <-l.ended, context.Canceled)
		_, err = s.rdb.Get(t.Context(), "other").Result()
		require.ErrorContains(t, err, "NOPERM")
		require.NoError(t, admin.rdb.FlushAll(t.Context()).Err())
	}
}

// TestC08_L15_NotPermitted takes one permission at a time away. Nothing that fails leaves a lease, and
// nothing that is not permitted is "held".
func TestC08_L15_NotPermitted(t *testing.T) {
	t.Parallel()
	_, admin := privateStore(t)
	for _, command := range []string{"evalsha", "mget", "incr", "time", "set", "zcard", "persist"} {
		for name, opts := range map[string][]redislock.Option{"clock": nil, "plain": {redislock.PlainCounter()}} {
			if name == "plain" && command == "time" || name == "clock" && command == "persist" {
				continue // it does without
			}
			t.Run(command+" "+name, func(t *testing.T) {
				t.Parallel()
				s := user(t, admin.rdb, "r/"+command+name, "~*", "+@all", "-"+command)
				s.Driver = redislock.New(s.rdb, opts...)
				denied := "NOPERM|can't run this command"
				_, err := s.Acquire(t.Context(), s.request(uuid.New()))
				require.Regexp(t, denied, err)
				_, err = s.waiter().ask(0)
				require.Regexp(t, denied, err)
				l := newLocker(t, s.rdb, opts...)
				_, err = l.TryAcquire(t.Context(), s.resource)
				require.ErrorIs(t, err, lock.ErrUnavailable)
				require.NotErrorIs(t, err, lock.ErrHeld)
				_, err = l.Acquire(within(t, 200*time.Millisecond), s.resource)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				n, err := admin.rdb.Exists(t.Context(), s.leaseKey()).Result()
				require.NoError(t, err)
				assert.Zero(t, n, "a lease was left")
			})
		}
	}
}

// TestL12_WithoutPush has users who may not publish, or not subscribe: their waiters ask by themselves.
func TestL12_WithoutPush(t *testing.T) {
	t.Parallel()
	_, admin := privateStore(t)
	for name, rules := range map[string][]any{
		"publish":     {"~*", "&*", "+@all", "-publish"},
		"subscribe":   {"~*", "&*", "+@all", "-subscribe"},
		"any channel": {"~*", "resetchannels", "+@all"},
		"both":        {"~*", "&*", "+@all", "-publish", "-subscribe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := user(t, admin.rdb, "r/"+name, rules...)
			l, waiting := newLocker(t, s.rdb), newLocker(t, s.rdb)
			first := acquire(t, l, s.resource)
			const waiters = 3
			got := make(chan *lock.Lease, waiters)
			for range waiters {
				go func() {
					lease, err := waiting.Acquire(t.Context(), s.resource)
					assert.NoError(t, err)
					got <- lease
				}()
			}
			require.Eventually(t, func() bool { return len(newStoreOn(t, admin.rdb, s.resource).line()) == waiters }, 10*time.Second, 5*time.Millisecond)
			lease := first
			for range waiters {
				released := time.Now()
				require.NoError(t, lease.Release(t.Context()))
				lease = <-got
				require.NotNil(t, lease)
				assert.Less(t, time.Since(released), 1300*time.Millisecond)
			}
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}
