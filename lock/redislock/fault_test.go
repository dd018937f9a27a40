package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

// TestL15_C08_ServerErrorsAreUnavailable has real servers refuse a script that would be granted.
func TestC08_L15_ServerErrorsAreUnavailable(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// TestBusyServer has a script of another program that doesn't end.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t, "--lua-time-limit", "20")
	rdb := client(t, server.URL())
	l := newLocker(t, rdb)
	turn(t, l, "r")
	held := acquire(t, l, "held", lock.WithTTL(time.Minute))
	endless := make(chan error, 1)
	other := client(t, server.URL()+"?max_retries=-1&read_timeout=-1")
	go func() { endless <- other.Eval(t.Context(), "while true do end", nil).Err() }()
	require.Eventually(t, func() bool {
		err := rdb.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, 10*time.Second, 5*time.Millisecond)

	_, err := l.TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorContains(t, err, "BUSY")
	require.NotErrorIs(t, err, lock.ErrHeld)
	start := time.Now()
	_, err = l.Acquire(within(t, 200*time.Millisecond), "r")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(start), time.Second)
	require.ErrorIs(t, held.Renew(t.Context(), 2*time.Minute), lock.ErrUnavailable)
	require.NoError(t, held.Err())

	require.NoError(t, rdb.ScriptKill(t.Context()).Err())
	require.ErrorContains(t, <-endless, "killed")
	require.NoError(t, held.Renew(t.Context(), time.Minute))
	require.NoError(t, held.Release(t.Context()))
	turn(t, l, "r")
}

func TestL21_MinHoldOutOfMemory(t *testing.T) {
	t.Parallel()
	_, s := privateStore(t)
	c := s.acquire()
	require.NoError(t, s.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, s.Release(t.Context(), c, time.Second))
	assert.LessOrEqual(t, s.rdb.PTTL(t.Context(), s.leaseKey()).Val(), time.Second)
	assert.True(t, strings.HasPrefix(s.value(), "released "))
}
