package pgguard_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
)

// behindProxy returns a pool that reaches the server through a proxy, with a connection that is warm.
func (e *env) behindProxy(t *testing.T) (*testenv.Proxy, *pgxpool.Pool) {
	t.Helper()
	proxy := testenv.NewProxy(t, testenv.Postgres(t).Addr())
	pool := connectPool(t, proxy.URL(e.url))
	g := newGuard(t, pool)
	require.NoError(t, g.InTx(t.Context(), claim("warm", 1+e.mark(t, "warm")), nothing))
	require.NoError(t, g.Admit(t.Context(), claim("warm", 1+e.mark(t, "warm"))))
	return proxy, pool
}

func increment(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE auctions SET bid = bid + 1 WHERE id = 7")
	return err
}

// TestC43_G04_LostCommitIsUnknown: it was done, once, and we say that we don't know.
func TestC43_G04_LostCommitIsUnknown(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		e.exec(t, "INSERT INTO auctions VALUES (7)")
		proxy, pool := e.behindProxy(t)
		g := newGuard(t, pool)
		c := claim("auction/7", 33)
		calls := 0
		lost := proxy.LoseReply("commit")
		err := g.InTx(t.Context(), c, func(tx pgx.Tx) error {
			calls++
			return increment(t.Context(), tx)
		})
		await(t, lost, "the reply to be lost")
		require.ErrorIs(t, err, fence.ErrOutcomeUnknown, mode)
		require.NotErrorIs(t, err, fence.ErrUnavailable)
		assert.Equal(t, 1, calls)
		got, _ := e.row(t, 7)
		assert.EqualValues(t, 1, got, "once")
		assert.EqualValues(t, 33, e.mark(t, "auction/7"))
		require.NoError(t, g.InTx(t.Context(), c, func(tx pgx.Tx) error { return increment(t.Context(), tx) }), "the pool goes on")
	}
}

// TestC43_G04_CommitThatIsNotAnsweredInTime: it may still arrive.
func TestC43_G04_CommitThatIsNotAnsweredInTime(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	proxy, pool := e.behindProxy(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := newGuard(t, pool).InTx(ctx, claim("auction/7", 33), func(tx pgx.Tx) error {
		proxy.DropRequests(true)
		time.AfterFunc(50*time.Millisecond, cancel)
		return nil
	})
	require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fence.ErrUnavailable)
	proxy.Cut()
	assert.Zero(t, e.mark(t, "auction/7"))
}

// TestG04_C35_LostStatementIsUnknown: of one that commits by itself. Under the once rule a second try
// tells that it was written.
func TestG04_C35_LostStatementIsUnknown(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		e.exec(t, "CREATE TABLE things (name text PRIMARY KEY, n int, fence bigint)")
		proxy, pool := e.behindProxy(t)
		g := newGuard(t, pool)
		things := g.Table(pgguard.Table{Name: "things", Key: "name", Resource: "thing/", Fence: "fence"})
		require.NoError(t, things.Upsert(t.Context(), claim("thing/a", 1), "a", pgguard.Set{"n": 1}))
		require.NoError(t, things.Upsert(t.Context(), claim("thing/lose-update", 1), "lose-update", pgguard.Set{"n": 1}))
		require.NoError(t, things.Update(t.Context(), claim("thing/a", 2), "a", pgguard.Set{"n": 1}))

		for match, call := range map[string]func() error{
			"lose-admit": func() error { return g.Admit(t.Context(), claim("lose-admit", 33)) },
			"lose-update": func() error {
				return things.Update(t.Context(), claim("thing/lose-update", 33), "lose-update", pgguard.Set{"n": 2})
			},
			"lose-upsert": func() error {
				return things.Upsert(t.Context(), claim("thing/lose-upsert", 33), "lose-upsert", pgguard.Set{"n": 2})
			},
		} {
			lost := proxy.LoseReply(match)
			err := call()
			await(t, lost, "the reply to be lost")
			require.ErrorIs(t, err, fence.ErrOutcomeUnknown, "%s %s", mode, match)
			require.NotErrorIs(t, err, fence.ErrUnavailable, "%s %s", mode, match)
		}
		assert.EqualValues(t, 33, e.mark(t, "lose-admit"))
		assert.EqualValues(t, 2, e.number(t, "SELECT count(*) FROM things WHERE fence = 33 AND n = 2"))
		c := claim("thing/lose-update", 33)
		requireRefused(t, things.Update(t.Context(), c, "lose-update", pgguard.Set{"n": 3}), c, fence.ErrReplayed, 33)
	}
}

// TestG04_LostBeginIsUnavailable: nothing can have been committed, and fn has not run.
func TestG04_LostBeginIsUnavailable(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		proxy, pool := e.behindProxy(t)
		lost := proxy.LoseReply("lose-begin")
		err := newGuard(t, pool).InTx(t.Context(), claim("lose-begin", 33), func(pgx.Tx) error { t.Error("fn ran"); return nil })
		await(t, lost, "the reply to be lost")
		require.ErrorIs(t, err, fence.ErrUnavailable, mode)
		require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, mode)
		require.NoError(t, e.guard(t).Admit(t.Context(), claim("lose-begin", 1)), "neither marked nor locked")
	}
}

// TestG02_LostReasonIsUnavailable: the write had no effect, that much is certain.
func TestG02_LostReasonIsUnavailable(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 34)")
	proxy, pool := e.behindProxy(t)
	var lost <-chan struct{}
	meddler := &meddling{DB: pool, beforeMark: func() { lost = proxy.LoseReply("") }}
	err := newGuard(t, meddler).Table(once).Update(t.Context(), claim("auction/7", 33), 7, pgguard.Set{"bid": 1})
	await(t, lost, "the reply to be lost")
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
}

// TestG03_ConnectionLostInFunction rolls back, whatever fn makes of it.
func TestG03_ConnectionLostInFunction(t *testing.T) {
	for name, swallow := range map[string]bool{"told": false, "swallowed": true} {
		e := newEnv(t)
		e.exec(t, "INSERT INTO auctions VALUES (7)")
		proxy, pool := e.behindProxy(t)
		err := newGuard(t, pool).InTx(t.Context(), claim("auction/7", 33), func(tx pgx.Tx) error {
			require.NoError(t, increment(t.Context(), tx))
			proxy.Cut()
			err := increment(t.Context(), tx)
			require.Error(t, err)
			if swallow {
				return nil
			}
			return err
		})
		require.Error(t, err, name)
		require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, "%s: no COMMIT was sent", name)
		if swallow {
			require.ErrorIs(t, err, fence.ErrUnavailable)
		}
		require.NoError(t, e.guard(t).Admit(t.Context(), claim("auction/7", 1)), "the mark is where it was, and free")
		got, _ := e.row(t, 7)
		assert.Zero(t, got)
	}
}

// TestServerGoesDown inside a transaction, and comes back.
func TestServerGoesDown(t *testing.T) {
	server := testenv.NewPostgres(t)
	e := envOn(t, server)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	g := e.guard(t)
	require.NoError(t, g.Admit(t.Context(), claim("auction/7", 33)))
	err := g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error {
		defer server.Kill()
		return increment(t.Context(), tx)
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
	for call, err := range map[string]error{
		"Admit":        g.Admit(t.Context(), claim("auction/7", 34)),
		"InTx":         g.InTx(t.Context(), claim("auction/7", 34), nothing),
		"Table.Update": g.Table(once).Update(t.Context(), claim("auction/7", 34), 7, nil),
	} {
		require.Error(t, err, call)
		require.NotErrorIs(t, err, fence.ErrStale, call)
	}
	server.Restart()
	e.Reset()
	assert.EqualValues(t, 33, e.mark(t, "auction/7"), "the mark is as durable as the data")
	got, _ := e.row(t, 7)
	assert.Zero(t, got)
	require.NoError(t, g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error { return increment(t.Context(), tx) }))
}

// TestG04_FatalAnswerIsUnknown: a server that is going down says so in place of an answer. Only for an
// idle session is that certain to mean no.
func TestG04_FatalAnswerIsUnknown(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	err := e.guard(t).InTx(t.Context(), claim("auction/7", 33), func(tx pgx.Tx) error {
		var pid int
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		e.exec(t, "SELECT pg_terminate_backend($1, 5000)", pid)
		return nil
	})
	require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
	assert.Zero(t, e.mark(t, "auction/7"))
}
