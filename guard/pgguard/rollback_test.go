package pgguard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// TestG05_MarkOutlivesTheRow: who was shut out can't come back by way of a new row.
func TestG05_MarkOutlivesTheRow(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
	g := e.guard(t)
	require.NoError(t, g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "DELETE FROM auctions WHERE id = 7")
		return err
	}))
	late := claim("auction/7", 33)
	requireRefused(t, g.InTx(t.Context(), late, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 120)")
		return err
	}), late, fence.ErrStale, 34)
	assert.Zero(t, e.number(t, "SELECT count(*) FROM auctions"))
}

// TestG03_FailedFunctionChangesNothing covers every way in which fn can fail.
func TestG03_FailedFunctionChangesNothing(t *testing.T) {
	boom := errors.New("boom")
	for name, fail := range map[string]func() error{
		"error":  func() error { return boom },
		"panic":  func() error { panic(boom) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
			g := e.guard(t)
			require.NoError(t, g.Admit(t.Context(), claim("auction/7", 33)))
			panicked, err := contain(func() error {
				return g.InTx(t.Context(), claim("auction/7", 34), func(tx pgx.Tx) error {
					require.NoError(t, bid(t.Context(), tx, 7, 120))
					return fail()
				})
			})
			switch name {
			case "error":
				require.Same(t, boom, err, "as it is")
			case "panic":
				require.Equal(t, boom, panicked)
			}
			got, _ := e.row(t, 7)
			assert.EqualValues(t, 100, got)
			assert.EqualValues(t, 33, e.mark(t, "auction/7"))
			require.NoError(t, g.Admit(t.Context(), claim("auction/7", 34)), "the token is not used up, nor the mark locked")
			assert.Zero(t, e.Stat().AcquiredConns(), "the connection was given back")
		})
	}
}

// contain runs f in a goroutine of its own, which f may end.
func contain(f func() error) (panicked any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		err = f()
	}()
	<-done
	return panicked, err
}

// TestG03_SwallowedSQLErrorIsNoSuccess: PostgreSQL answers such a COMMIT with ROLLBACK.
func TestG03_SwallowedSQLErrorIsNoSuccess(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	err := g.InTx(t.Context(), claim("auction/7", 33), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 100)")
		require.NoError(t, err)
		_, _ = tx.Exec(t.Context(), "INSERT INTO auctions VALUES (7, 100)")
		return nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
	require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
	assert.Zero(t, e.number(t, "SELECT count(*) FROM auctions"))
	assert.Zero(t, e.mark(t, "auction/7"))
}

// TestG03_SwallowedRefusalIsSticky: of the guard's own admission, and of a further one.
func TestG03_SwallowedRefusalIsSticky(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 34)")
	require.NoError(t, g.Admit(t.Context(), claim("auction/8", 34)))
	late := claim("auction/8", 33)
	requireRefused(t, g.InTx(t.Context(), late, func(pgx.Tx) error { t.Error("fn ran"); return nil }), late, fence.ErrStale, 34)

	err := g.InTx(t.Context(), claim("auction/9", 1), func(tx pgx.Tx) error {
		require.NoError(t, bid(t.Context(), tx, 7, 120))
		requireRefused(t, g.AdmitTx(t.Context(), tx, late), late, fence.ErrStale, 34)
		return nil
	})
	require.ErrorIs(t, err, fence.ErrStale)

	auction := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	lateRow := claim("auction/7", 33)
	for name, refused := range map[string]func(ctx context.Context) error{
		"Admit": func(ctx context.Context) error { return g.Admit(ctx, late) },
		"AdmitTx": func(ctx context.Context) error {
			tx, _ := pgguard.TxFrom(ctx)
			return g.AdmitTx(ctx, tx, late)
		},
		"nested InTx":  func(ctx context.Context) error { return g.InTx(ctx, late, func(pgx.Tx) error { return nil }) },
		"Table.Update": func(ctx context.Context) error { return auction.Update(ctx, lateRow, 7, pgguard.Set{"bid": 1}) },
	} {
		err = g.Do(t.Context(), claim("auction/9", 1), func(ctx context.Context) error {
			tx, ok := pgguard.TxFrom(ctx)
			require.True(t, ok)
			require.NoError(t, bid(ctx, tx, 7, 120))
			require.ErrorIs(t, refused(ctx), fence.ErrStale)
			return nil
		})
		var rejected *fence.RejectedError
		require.ErrorAs(t, err, &rejected, name)
		assert.EqualValues(t, 34, rejected.Mark, name)
	}
	got, _ := e.row(t, 7)
	assert.EqualValues(t, 100, got)
	assert.Zero(t, e.mark(t, "auction/9"))

	// A savepoint of the caller's own is its own decision.
	require.NoError(t, g.Do(t.Context(), claim("auction/9", 1), func(ctx context.Context) error {
		tx, _ := pgguard.TxFrom(ctx)
		savepoint, err := tx.Begin(ctx)
		require.NoError(t, err)
		requireRefused(t, g.AdmitTx(ctx, savepoint, late), late, fence.ErrStale, 34)
		return savepoint.Rollback(ctx)
	}))
}

// TestG03_FailedInnerFunctionIsUndone: it is a savepoint, so the outer one may go on without it.
func TestG03_FailedInnerFunctionIsUndone(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100), (8, 100)")
	g := e.guard(t)
	boom := errors.New("boom")
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 33), func(ctx context.Context) error {
		require.NoError(t, g.InTx(ctx, claim("auction/7", 34), func(tx pgx.Tx) error { return bid(ctx, tx, 7, 120) }), "the same resource")
		require.ErrorIs(t, g.InTx(ctx, claim("auction/8", 33), func(tx pgx.Tx) error {
			require.NoError(t, bid(ctx, tx, 8, 120))
			return boom
		}), boom)
		require.PanicsWithValue(t, boom, func() {
			_ = g.Do(ctx, claim("auction/8", 33), func(context.Context) error { panic(boom) })
		})
		return nil
	}))
	seven, _ := e.row(t, 7)
	eight, _ := e.row(t, 8)
	assert.EqualValues(t, 120, seven)
	assert.EqualValues(t, 100, eight)
	assert.EqualValues(t, 34, e.mark(t, "auction/7"))
	assert.Zero(t, e.mark(t, "auction/8"))
}

// TestDo_ContextIsOverWithIt: what a goroutine of fn's does with it afterwards is an error, not a write
// outside the fence.
func TestDo_ContextIsOverWithIt(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	g := e.guard(t)
	var kept context.Context
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 33), func(ctx context.Context) error {
		kept = ctx
		return nil
	}))
	for call, err := range map[string]error{
		"Admit": g.Admit(kept, claim("auction/7", 34)),
		"InTx":  g.InTx(kept, claim("auction/7", 34), nothing),
		"Table": g.Table(once).Update(kept, claim("auction/7", 34), 7, nil),
	} {
		require.ErrorIs(t, err, pgx.ErrTxClosed, call)
		require.NotErrorIs(t, err, fence.ErrUnavailable, call)
	}
	assert.EqualValues(t, 33, e.mark(t, "auction/7"))

	// Another database is another matter.
	other := newGuard(t, connectPool(t, e.url))
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 34), func(ctx context.Context) error {
		return other.Admit(ctx, claim("auction/8", 1))
	}))
}

// TestC39_SeveralRowsAllOrNothing: one stale row among them.
func TestC39_SeveralRowsAllOrNothing(t *testing.T) {
	e := newEnv(t)
	g := e.guard(t)
	e.exec(t, "INSERT INTO auctions VALUES (1, 100, 10), (2, 100, 50), (3, 100, NULL)")
	auction := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	batch := func(token fence.Token) error {
		return g.Do(t.Context(), claim("batch", token), func(ctx context.Context) error {
			for id, resource := range map[int]string{1: "auction/1", 2: "auction/2", 3: "auction/3"} {
				if err := auction.Update(ctx, claim(resource, token), id, pgguard.Set{"bid": int(token)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.ErrorIs(t, batch(40), fence.ErrStale)
	assert.EqualValues(t, 300, e.number(t, "SELECT sum(bid) FROM auctions"))
	assert.EqualValues(t, 60, e.number(t, "SELECT sum(fence) FROM auctions"))
	assert.Zero(t, e.mark(t, "batch"))
	require.NoError(t, batch(60))
	assert.EqualValues(t, 180, e.number(t, "SELECT sum(bid) FROM auctions"))
}
