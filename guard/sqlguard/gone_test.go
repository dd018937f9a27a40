package sqlguard_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

// interrupt has SQLite roll tx back: a statement that writes is cut off by a context of its own.
func interrupt(ctx context.Context, t *testing.T, tx *sql.Tx) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := tx.ExecContext(ctx, "INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT i FROM n")
	require.Error(t, err)
}

func newGoneDB(t *testing.T) (*sql.DB, *sqlguard.Guard) {
	t.Helper()
	db := newDB(t)
	exec(t, db, "CREATE TABLE big (i INTEGER)")
	exec(t, db, "CREATE TABLE auctions (id INTEGER PRIMARY KEY, bid INTEGER, fence INTEGER)")
	exec(t, db, "INSERT INTO auctions VALUES (7, 100, 0)")
	return db, newGuard(t, db)
}

func TestG04_TransactionGoneUnderItsFunction(t *testing.T) {
	db, g := newGoneDB(t)
	err := g.InTx(t.Context(), claim("r", 33), func(tx *sql.Tx) error {
		interrupt(t.Context(), t, tx)
		_, err := tx.ExecContext(t.Context(), "UPDATE auctions SET bid = 120")
		return err
	})
	require.ErrorIs(t, err, fence.ErrOutcomeUnknown, "the UPDATE was committed by itself")
	require.NotErrorIs(t, err, fence.ErrUnavailable)
	assert.Zero(t, mark(t, db, "r"))
}

func TestG04_NothingNestsInATransactionThatIsGone(t *testing.T) {
	db, g := newGoneDB(t)
	auctions := g.Table(sqlguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	for name, inner := range map[string]func(ctx context.Context) error{
		"Do": func(ctx context.Context) error {
			return g.Do(ctx, claim("s", 5), func(context.Context) error {
				t.Error("ran")
				return nil
			})
		},
		"Admit": func(ctx context.Context) error { return g.Admit(ctx, claim("s", 5)) },
		"Table": func(ctx context.Context) error {
			return auctions.Update(ctx, claim("auction/7", 5), 7, sqlguard.Set{"bid": 99})
		},
	} {
		err := g.Do(t.Context(), claim("r", 33), func(ctx context.Context) error {
			tx, _ := sqlguard.TxFrom(ctx)
			interrupt(ctx, t, tx)
			require.ErrorIs(t, inner(ctx), fence.ErrOutcomeUnknown, name)
			return nil
		})
		require.ErrorIs(t, err, fence.ErrOutcomeUnknown, name)
		assert.Zero(t, mark(t, db, "r"), name)
		assert.Zero(t, mark(t, db, "s"), name)
		assert.Equal(t, 100, one[int](t, db, "SELECT bid FROM auctions"), name)
	}
}

// TestG03_WhatCannotBeUndoneIsNotCommitted swallows the error of a nested write that made SQLite roll
// back.
func TestG03_WhatCannotBeUndoneIsNotCommitted(t *testing.T) {
	db, g := newGoneDB(t)
	exec(t, db, "CREATE TRIGGER no BEFORE UPDATE ON auctions WHEN NEW.bid = 99 BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
	auctions := g.Table(sqlguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	err := g.Do(t.Context(), claim("r", 33), func(ctx context.Context) error {
		require.Error(t, auctions.Update(ctx, claim("auction/7", 5), 7, sqlguard.Set{"bid": 99}))
		tx, _ := sqlguard.TxFrom(ctx)
		_, err := tx.ExecContext(ctx, "UPDATE auctions SET bid = 120")
		assert.ErrorIs(t, err, sql.ErrTxDone)
		return nil
	})
	require.Error(t, err)
	assert.Equal(t, 100, one[int](t, db, "SELECT bid FROM auctions"))
}
