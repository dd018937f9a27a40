package redislock_test

import (
	"context"
	"strconv"
	"strings"
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

// TestC06_SilentServer has a client whose own timeout is longer than the caller's.
func TestC06_SilentServer(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// TestDownAtTheStart has a client that has never reached its server.
func TestDownAtTheStart(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	server.Kill()
	o, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	l := newLocker(t, rdb)

	start := time.Now()
	_, err = l.TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	_, err = l.Inspect(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	_, err = l.Acquire(within(t, 100*time.Millisecond), "r")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = l.Acquire(t.Context(), "r", lock.WithRetryFor(200*time.Millisecond))
	require.ErrorIs(t, err, lock.ErrUnavailable)
	assert.Less(t, time.Since(start), 10*time.Second)

	got := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), "r", lock.WithRetryFor(30*time.Second))
		got <- err
	}()
	server.Restart()
	require.NoError(t, <-got)
}

// TestDyingInTheMiddle kills a server with leases and waiters.
func TestDyingInTheMiddle(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	l := newLocker(t, client(t, server.URL()))
	var leases []*lock.Lease
	for i := range 10 {
		leases = append(leases, acquire(t, l, "r"+strconv.Itoa(i), lock.WithTTL(time.Second)))
	}
	type outcome struct {
		lease *lock.Lease
		err   error
	}
	patient, hasty := make(chan outcome, 1), make(chan outcome, 1)
	wait := func(ctx context.Context, got chan outcome, opts ...lock.Option) {
		lease, err := l.Acquire(ctx, "r0", opts...)
		got <- outcome{lease, err}
	}
	go wait(t.Context(), patient, lock.WithRetryFor(time.Minute))
	go wait(within(t, 2*time.Second), hasty)
	server.Kill()
	died := time.Now()
	for _, lease := range leases {
		<-lease.Context().Done()
		assert.Less(t, time.Since(died), 1200*time.Millisecond)
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
	}
	o := <-hasty
	require.ErrorIs(t, o.err, context.DeadlineExceeded)
	assert.Less(t, time.Since(died), 3*time.Second)

	server.Restart()
	o = <-patient
	require.NoError(t, o.err)
	assert.Greater(t, o.lease.Token(), leases[0].Token())
	require.NoError(t, o.lease.Err())
	require.ErrorIs(t, leases[0].Release(t.Context()), lock.ErrLost)
	require.NoError(t, o.lease.Renew(t.Context(), time.Minute))
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t, "--requirepass", "right")
	for name, password := range map[string]string{"wrong": "wrong", "none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password})
			t.Cleanup(func() { _ = rdb.Close() })
			l := newLocker(t, rdb)
			_, err := l.TryAcquire(t.Context(), "r")
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.NotErrorIs(t, err, lock.ErrHeld)
			assert.Regexp(t, "WRONGPASS|NOAUTH|unauthenticated", err.Error())
			assert.NotContains(t, err.Error(), "right")
			start := time.Now()
			_, err = l.Acquire(t.Context(), "r", lock.WithRetryFor(300*time.Millisecond))
			require.ErrorIs(t, err, lock.ErrUnavailable)
			assert.Less(t, time.Since(start), 3*time.Second)
		})
	}
	right := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "right"})
	t.Cleanup(func() { _ = right.Close() })
	turn(t, newLocker(t, right), "r")
}

// TestL15_StaleReplica asks a replica that has lost its primary: it can't know who holds, or who has lost.
func TestL15_StaleReplica(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.NewRedis(t), testenv.NewRedis(t)
	behind := client(t, replica.URL())
	here, there := newLocker(t, client(t, primary.URL())), newLocker(t, behind)
	lease := acquire(t, here, "r")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	require.NoError(t, behind.ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool { return behind.Exists(t.Context(), leaseKey("r")).Val() == 1 }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, behind.ReplicaOf(t.Context(), host, "1").Err())
	require.NoError(t, lease.Release(t.Context()))
	_, err := there.TryAcquire(t.Context(), "r")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.NotErrorIs(t, err, lock.ErrHeld)

	claim := acquire(t, here, "s").Claim()
	d := redislock.New(behind)
	r := driver.Request{Resource: "s", Holder: uuid.New(), TTL: time.Minute}
	_, resume := d.Resume(t.Context(), claim, r)
	_, advance := d.Advance(t.Context(), claim, 1)
	_, breaking := d.Break(t.Context(), r, fence.Fingerprint(claim.Holder))
	for name, err := range map[string]error{
		"renew":   d.Renew(t.Context(), []driver.Renewal{{Claim: claim, TTL: time.Minute}})[0],
		"release": d.Release(t.Context(), claim, 0), "resume": resume, "advance": advance,
	} {
		require.ErrorContains(t, err, "READONLY", name)
		require.NotErrorIs(t, err, driver.ErrLost, name)
	}
	require.Error(t, breaking)
}
