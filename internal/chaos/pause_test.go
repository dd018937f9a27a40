//go:build unix

package chaos

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
	"github.com/ringfence/ringfence/middleware"
)

const (
	oldHolder, newHolder = "written by the old holder", "written by the new holder"
	ttl                  = 500 * time.Millisecond
)

// TestPause_StaleWriteIsRefused stops a holder between its last check and its write, until its lease
// has expired and its successor has written.
func TestPause_StaleWriteIsRefused(t *testing.T) {
	for _, how := range []string{"table", "intx", "http"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			answer := w.pauseBeforeWriting(t, how)
			assert.Equal(t, "stale", answer.Write)
			assert.Equal(t, "lost", answer.Lease, "awake again, the old holder can tell")
			assert.Equal(t, newHolder, w.value(t))
		})
	}
}

// TestPause_WithoutAGuardTheStaleWriteLands is the proof that the test above can fail.
func TestPause_WithoutAGuardTheStaleWriteLands(t *testing.T) {
	w := newWorld(t)
	answer := w.pauseBeforeWriting(t, "unguarded")
	assert.Equal(t, "written", answer.Write)
	assert.Equal(t, oldHolder, w.value(t))
}

// world is a Redis with the lock, and a PostgreSQL with the row that it protects.
type world struct {
	resource    string
	redis, psql string
	http        string // a storage service that requires claims
	locker      *lock.Locker
	pool        *pgxpool.Pool
	guard       *pgguard.Guard
	rows        *pgguard.TableGuard
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := testenv.Redis(t)
	w := &world{redis: server.URL(), resource: server.Prefix(t) + "7"}
	w.psql, _ = testenv.Postgres(t).Schema(t)
	w.connect(t.Context(), t, func(stop func()) { t.Cleanup(stop) })
	require.NoError(t, pgguard.Migrate(t.Context(), w.pool))
	_, err := w.pool.Exec(t.Context(), `
		CREATE TABLE rows (id text PRIMARY KEY, value text NOT NULL, fence bigint, fence_holder uuid);
		INSERT INTO rows VALUES ('7', 'at first')`)
	require.NoError(t, err)
	w.http = w.serve(t)
	return w
}

// connect opens what both the test and its writers use.
func (w *world) connect(ctx context.Context, t require.TestingT, cleanup func(func())) {
	o, err := redis.ParseURL(w.redis)
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	cleanup(func() { _ = rdb.Close() })
	w.locker, err = lock.New(redislock.New(rdb), lock.WithTTL(ttl))
	require.NoError(t, err)
	w.pool, err = pgxpool.New(ctx, w.psql)
	require.NoError(t, err)
	cleanup(w.pool.Close)
	cleanup(func() { _ = w.locker.Close(context.WithoutCancel(ctx)) })
	w.guard, err = pgguard.New(w.pool)
	require.NoError(t, err)
	w.rows = w.guard.Table(pgguard.Table{
		Name: "rows", Key: "id", Resource: w.resource[:len(w.resource)-1], Fence: "fence", Holder: "fence_holder",
	})
}

// serve runs a storage service that stores what is PUT, for holders only.
func (w *world) serve(t *testing.T) string {
	mux := http.NewServeMux()
	require := middleware.Require(w.guard, middleware.Prefix(w.resource[:len(w.resource)-1], middleware.PathValue("id")))
	mux.Handle("PUT /rows/{id}", require(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, err := w.pool.Exec(r.Context(), `UPDATE rows SET value = $1 WHERE id = $2`, r.URL.Query().Get("value"), r.PathValue("id"))
		if err != nil {
			middleware.WriteProblem(rw, r, err)
		}
	})))
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	return service.URL
}

func (w *world) value(t *testing.T) string {
	t.Helper()
	var value string
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT value FROM rows WHERE id = '7'`).Scan(&value))
	return value
}

// pauseBeforeWriting has a process acquire and stops it before it writes; then a successor acquires and
// writes, in the same way; then the process goes on.
func (w *world) pauseBeforeWriting(t *testing.T, how string) answer {
	t.Helper()
	old := startWriter(t, w, how)
	token := old.acquired(t)
	require.Equal(t, "at first", w.value(t))
	old.stop(t)
	old.tellToWrite(t) // it will find this when it wakes up

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := w.locker.Acquire(ctx, w.resource)
	require.NoError(t, err)
	require.Greater(t, lease.Token(), token)
	require.NoError(t, w.write(ctx, how, lease.Claim(), newHolder))
	require.NoError(t, lease.Release(ctx))
	require.Equal(t, newHolder, w.value(t))

	old.resume(t)
	return old.answer(t)
}
