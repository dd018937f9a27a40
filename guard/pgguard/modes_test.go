package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// onEach runs f in every exec mode, on a pool and on a connection.
func onEach(t *testing.T, f func(t *testing.T, e *env, db pgguard.DB)) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		t.Run(mode+"/pool", func(t *testing.T) { f(t, e, e.Pool) })
		t.Run(mode+"/conn", func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), e.url)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
			f(t, e, conn)
		})
	}
}

func TestG06_EveryExecMode(t *testing.T) {
	onEach(t, func(t *testing.T, e *env, db pgguard.DB) {
		e.exec(t, "TRUNCATE auctions, fence_marks")
		g := newGuard(t, db)
		first, late, next := claim("auction/7", 33), claim("auction/7", 32), claim("auction/7", 34)
		table := g.Table(full)
		for range 3 { // caches are cold, then warm
			require.NoError(t, g.Admit(t.Context(), first))
			require.NoError(t, g.InTx(t.Context(), first, nothing))
			requireRefused(t, g.Admit(t.Context(), late), late, fence.ErrStale, 33)
			requireRefused(t, g.InTx(t.Context(), late, nothing), late, fence.ErrStale, 33)

			require.NoError(t, table.Upsert(t.Context(), first, 7, pgguard.Set{"bid": 120}))
			require.NoError(t, table.Update(t.Context(), first, 7, pgguard.Set{"bid": 130}))
			requireRefused(t, table.Update(t.Context(), late, 7, pgguard.Set{"bid": 1}), late, fence.ErrStale, 33)
			require.ErrorIs(t, table.Update(t.Context(), claim("auction/8", 1), 8, nil), fence.ErrNotFound)
		}
		require.NoError(t, g.Do(t.Context(), next, func(ctx context.Context) error {
			return table.Update(ctx, next, 7, pgguard.Set{"bid": 140})
		}))
		got, mark := e.row(t, 7)
		assert.EqualValues(t, 140, got)
		assert.EqualValues(t, 34, mark)
		assert.EqualValues(t, 34, e.mark(t, "auction/7"))
	})
}

// TestC46_CachedStatementsVanish: as they do behind a pooler that hands out another server session.
func TestC46_CachedStatementsVanish(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		conn, err := pgx.Connect(t.Context(), e.url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		e.exec(t, "INSERT INTO auctions VALUES (7)")
		g := newGuard(t, conn)
		table := g.Table(full)
		for token := range fence.Token(4) {
			c := claim("auction/7", token+1)
			late := claim("auction/7", token)
			steps := []func() error{
				func() error { return g.InTx(t.Context(), c, nothing) },
				func() error { return g.Admit(t.Context(), c) },
				func() error { return table.Update(t.Context(), c, 7, pgguard.Set{"bid": 1}) },
				func() error { return table.Upsert(t.Context(), c, 7, pgguard.Set{"bid": 2}) },
				func() error { return g.Table(once).Update(t.Context(), claim("auction/7", c.Token+100), 7, nil) },
			}
			for i, step := range steps {
				require.NoError(t, step(), "%s step %d", mode, i)
				_, err := conn.Exec(t.Context(), "DISCARD ALL")
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), "SET search_path = "+e.schema)
				require.NoError(t, err)
			}
			e.exec(t, "UPDATE auctions SET fence = $1, fence_holder = NULL", int64(c.Token))
			if late.Token.Valid() {
				requireRefused(t, table.Update(t.Context(), late, 7, nil), late, fence.ErrStale, c.Token)
			}
		}
	}
}

// TestG06_StatementsAreOne: what pgx caches by its text doesn't depend on the order of a map.
func TestG06_StatementsAreOne(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "CREATE TABLE wide (id bigint PRIMARY KEY, fence bigint, a int, b int, c int, d int, e int)")
	texts := &recording{DB: e.Pool, texts: map[string]int{}}
	g := newGuard(t, texts).Table(pgguard.Table{Name: "wide", Key: "id", Fence: "fence"})
	for token := range fence.Token(20) {
		require.NoError(t, g.Upsert(t.Context(), claim("7", token+1), 7, pgguard.Set{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}))
	}
	assert.Len(t, texts.texts, 1)
	assert.EqualValues(t, 12345, e.number(t, "SELECT a*10000 + b*1000 + c*100 + d*10 + e FROM wide"))
}

// recording counts the texts that Exec is given.
type recording struct {
	pgguard.DB
	texts map[string]int
}

func (r *recording) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.texts[sql]++
	return r.DB.Exec(ctx, sql, args...)
}

// TestC46_CachedStatementsVanishInATransaction: it can't be saved, but the next will do.
func TestC46_CachedStatementsVanishInATransaction(t *testing.T) {
	e := newEnv(t)
	conn, err := pgx.Connect(t.Context(), e.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	g := newGuard(t, conn)
	table := g.Table(full)
	steps := map[string]func(token fence.Token) error{
		"Do and Table": func(token fence.Token) error {
			return g.Do(t.Context(), claim("r", token), func(ctx context.Context) error {
				return table.Update(ctx, claim("auction/7", token), 7, pgguard.Set{"bid": 1})
			})
		},
		"Do and Admit": func(token fence.Token) error {
			return g.Do(t.Context(), claim("r", token), func(ctx context.Context) error {
				return g.Admit(ctx, claim("s", token))
			})
		},
		"InTx and a statement": func(token fence.Token) error {
			return g.InTx(t.Context(), claim("r", token), func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE auctions SET bid = $1", 1)
				return err
			})
		},
	}
	token := fence.Token(0)
	for name, step := range steps {
		token++
		require.NoError(t, step(token), name)
		_, err := conn.Exec(t.Context(), "DISCARD ALL")
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "SET search_path = "+e.schema)
		require.NoError(t, err)
		token++
		require.ErrorIs(t, step(token), fence.ErrUnavailable, name)
		require.NoError(t, step(token), name)
	}
}
