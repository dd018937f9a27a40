package pgguard_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	_ pgguard.DB = (*pgxpool.Pool)(nil)
	_ pgguard.DB = (*pgxpool.Conn)(nil)
	_ pgguard.DB = (*pgx.Conn)(nil)
)

// env is a schema of its own with the migrations applied, and a table whose rows can carry marks.
type env struct {
	*pgxpool.Pool
	url    string
	schema string
}

const auctions = `CREATE TABLE auctions (
	id bigint PRIMARY KEY, bid integer NOT NULL DEFAULT 0, fence bigint, fence_holder uuid)`

// newEnv takes settings for the URL in pairs: "default_query_exec_mode", "exec".
func newEnv(tb testing.TB, settings ...string) *env {
	tb.Helper()
	return envOn(tb, testenv.Postgres(tb), settings...)
}

func envOn(tb testing.TB, server *testenv.PostgresServer, settings ...string) *env {
	tb.Helper()
	address, schema := server.Schema(tb)
	address = withSettings(tb, address, append(settings, "application_name", schema)...)
	pool := connectPool(tb, address)
	require.NoError(tb, pgguard.Migrate(tb.Context(), pool))
	e := &env{Pool: pool, url: address, schema: schema}
	e.exec(tb, auctions)
	return e
}

func withSettings(tb testing.TB, address string, settings ...string) string {
	tb.Helper()
	u, err := url.Parse(address)
	require.NoError(tb, err)
	q := u.Query()
	for i := 0; i < len(settings); i += 2 {
		q.Set(settings[i], settings[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx takes a plus for a plus
	return u.String()
}

func connectPool(tb testing.TB, address string) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(address)
	require.NoError(tb, err)
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			pool.Close()
		}()
		await(tb, closed, "connections to be given back")
	})
	return pool
}

// await waits for an event of which a failing test must not wait for ever.
func await(tb testing.TB, event <-chan struct{}, what string) {
	tb.Helper()
	select {
	case <-event:
	case <-time.After(20 * time.Second):
		tb.Error("waited in vain for ", what)
	}
}

func (e *env) guard(tb testing.TB, opts ...pgguard.Option) *pgguard.Guard {
	tb.Helper()
	return newGuard(tb, e.Pool, opts...)
}

func newGuard(tb testing.TB, db pgguard.DB, opts ...pgguard.Option) *pgguard.Guard {
	tb.Helper()
	g, err := pgguard.New(db, opts...)
	require.NoError(tb, err)
	return g
}

func (e *env) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	_, err := e.Exec(tb.Context(), sql, args...)
	require.NoError(tb, err)
}

func (e *env) number(tb testing.TB, sql string, args ...any) int64 {
	tb.Helper()
	var n int64
	require.NoError(tb, e.QueryRow(tb.Context(), sql, args...).Scan(&n))
	return n
}

// mark returns the token of a mark in fence_marks, 0 if there is none.
func (e *env) mark(tb testing.TB, resource string) fence.Token {
	tb.Helper()
	return fence.Token(e.number(tb, "SELECT coalesce(max(token), 0) FROM fence_marks WHERE resource = $1", resource))
}

// row returns an auction.
func (e *env) row(tb testing.TB, id int) (bid int64, token fence.Token) {
	tb.Helper()
	require.NoError(tb, e.QueryRow(tb.Context(), "SELECT bid, coalesce(fence, 0) FROM auctions WHERE id = $1", id).Scan(&bid, &token))
	return bid, token
}

// blocked waits until n sessions of this schema wait for locks.
func (e *env) blocked(tb testing.TB, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	for waiting := -1; waiting != n; {
		require.NoError(tb, e.QueryRow(ctx, `SELECT count(*) FROM pg_sleep(0.002), pg_stat_activity
			WHERE application_name = $1 AND wait_event_type = 'Lock'`, e.schema).Scan(&waiting), "nobody waits")
	}
}

func claim(resource string, token fence.Token) fence.Claim {
	return fence.Claim{Resource: resource, Token: token, Holder: uuid.New()}
}

func requireRefused(tb testing.TB, err error, c fence.Claim, verdict error, mark fence.Token) {
	tb.Helper()
	var rejected *fence.RejectedError
	require.ErrorAs(tb, err, &rejected)
	require.Equal(tb, fence.RejectedError{Claim: c, Mark: mark, Verdict: verdict}, *rejected)
	for _, other := range []error{fence.ErrUnavailable, fence.ErrOutcomeUnknown, fence.ErrNotFound, fence.ErrInvalid} {
		require.NotErrorIs(tb, err, other)
	}
}

// async runs f and returns a function that waits for its result.
func async(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return sync.OnceValue(func() error { return <-done })
}

func bid(ctx context.Context, tx pgx.Tx, id, amount int) error {
	_, err := tx.Exec(ctx, "UPDATE auctions SET bid = $2 WHERE id = $1", id, amount)
	return err
}

// modes are the ways in which pgx can send statements.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
