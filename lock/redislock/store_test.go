package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// store is a driver, and a client that looks at what it writes for one resource.
type store struct {
	*testing.T
	*redislock.Driver
	rdb      *redis.Client
	resource string
}

// newStore is on the shared server, with a resource of the test's own.
func newStore(t *testing.T, opts ...redislock.Option) *store {
	t.Helper()
	server := testenv.Redis(t)
	return newStoreOn(t, client(t, server.URL()), server.Prefix(t)+"r", opts...)
}

func newStoreOn(t *testing.T, rdb *redis.Client, resource string, opts ...redislock.Option) *store {
	return &store{T: t, Driver: redislock.New(rdb, opts...), rdb: rdb, resource: resource}
}

// bothStores runs a test with either kind of counter.
func bothStores(t *testing.T, test func(s *store)) {
	t.Run("clock", func(t *testing.T) { test(newStore(t)) })
	t.Run("plain", func(t *testing.T) { test(newStore(t, redislock.PlainCounter())) })
}

func (s *store) leaseKey() string { return leaseKey(s.resource) }
func (s *store) fenceKey() string { return fenceKey(s.resource) }
func (s *store) queueKey() string { return "{lock:" + s.resource + "}:queue" }
func (s *store) seenKey() string  { return "{lock:" + s.resource + "}:seen" }

// request asks for 20 s, under a label that is hard to parse.
func (s *store) request(holder uuid.UUID) driver.Request {
	return driver.Request{Resource: s.resource, Holder: holder, TTL: 20 * time.Second, Label: "web 3:  eu 17"}
}

// acquire makes one try for a fresh holder, that must succeed.
func (s *store) acquire() fence.Claim {
	s.Helper()
	holder := uuid.New()
	g, err := s.Acquire(s.Context(), s.request(holder))
	require.NoError(s, err)
	return fence.Claim{Resource: s.resource, Token: g.Token, Holder: holder}
}

func (s *store) release(c fence.Claim) {
	s.Helper()
	require.NoError(s, s.Release(s.Context(), c, 0))
}

// set is what another program does.
func (s *store) set(key string, value any, ttl time.Duration) {
	s.Helper()
	require.NoError(s, s.rdb.Set(s.Context(), key, value, ttl).Err())
}

// value is that of the lease key, "" if there is none.
func (s *store) value() string { return s.get(s.leaseKey()) }

func (s *store) get(key string) string {
	s.Helper()
	value, err := s.rdb.Get(s.Context(), key).Result()
	if err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		require.NoError(s, err)
	}
	return value
}

func (s *store) ttl(key string) time.Duration {
	s.Helper()
	ttl, err := s.rdb.PTTL(s.Context(), key).Result()
	require.NoError(s, err)
	return ttl
}

func (s *store) exists(key string) bool {
	s.Helper()
	n, err := s.rdb.Exists(s.Context(), key).Result()
	require.NoError(s, err)
	return n == 1
}

// clock is the server's.
func (s *store) clock() time.Time {
	s.Helper()
	now, err := s.rdb.Time(s.Context()).Result()
	require.NoError(s, err)
	return now
}

// line is who waits, in order.
func (s *store) line() []string {
	s.Helper()
	line, err := s.rdb.ZRange(s.Context(), s.queueKey(), 0, -1).Result()
	require.NoError(s, err)
	return line
}

// waiter stands in line for the store's resource.
type waiter struct {
	*store
	holder   uuid.UUID
	listener uuid.UUID
	ticket   int64
}

func (s *store) waiter() *waiter { return &waiter{store: s, holder: uuid.New(), listener: uuid.New()} }

// waiters puts n in line. The resource is taken.
func (s *store) waiters(n int) []*waiter {
	s.Helper()
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = s.waiter()
		require.Equal(s, i, ws[i].queued(0).Ahead)
	}
	return ws
}

// member is how the queue has it.
func (w *waiter) member() string { return w.holder.String() + " " + w.listener.String() }

func members(ws ...*waiter) []string {
	names := make([]string, len(ws))
	for i, w := range ws {
		names[i] = w.member()
	}
	return names
}

// ask is one Wait.
func (w *waiter) ask(overdue time.Duration) (driver.Grant, error) {
	return w.Wait(w.Context(), w.request(w.holder), driver.Place{Listener: w.listener, Ticket: w.ticket, Overdue: overdue})
}

// queued asks, and must be told to wait.
func (w *waiter) queued(overdue time.Duration) driver.Queued {
	w.Helper()
	_, err := w.ask(overdue)
	var q *driver.Queued
	require.ErrorAs(w, err, &q)
	require.Positive(w, q.Ticket)
	w.ticket = q.Ticket
	return *q
}

// granted asks, and must get the lease.
func (w *waiter) granted(overdue time.Duration) fence.Claim {
	w.Helper()
	g, err := w.ask(overdue)
	require.NoError(w, err)
	return fence.Claim{Resource: w.resource, Token: g.Token, Holder: w.holder}
}

func (w *waiter) leave() {
	w.Helper()
	require.NoError(w, w.Leave(w.Context(), w.resource, w.holder, w.listener))
}

// age has the waiter have come, and asked, that long ago; seen 0: it has not asked since it came.
func (w *waiter) age(came, seen time.Duration) {
	w.Helper()
	now := w.clock()
	w.ticket = now.Add(-came).UnixMicro()
	require.NoError(w, w.rdb.ZAdd(w.Context(), w.queueKey(), redis.Z{Score: float64(w.ticket), Member: w.member()}).Err())
	if seen != 0 {
		at := float64(now.Add(-seen).Unix())
		require.NoError(w, w.rdb.ZAdd(w.Context(), w.seenKey(), redis.Z{Score: at, Member: w.member()}).Err())
	}
}

// awaitGone returns when the key has expired.
func (s *store) awaitGone(key string) {
	s.Helper()
	require.Eventually(s, func() bool { return !s.exists(key) }, 20*time.Second, 2*time.Millisecond)
}

// serverOf is a private server that starts with args, and a store on it.
func privateStore(t *testing.T, args ...string) (*testenv.RedisServer, *store) {
	t.Helper()
	server := testenv.NewRedis(t, args...)
	return server, newStoreOn(t, client(t, server.URL()), "r")
}

// within is a context that ends by then.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
