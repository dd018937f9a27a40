package sqlguard_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

func TestG08_ClaimAndRowAreTied(t *testing.T) {
	db := newDB(t, auctionsSQL, "INSERT INTO auctions (id) VALUES (7), (8)")
	g := newGuard(t, db)
	auctions := g.Table(full)
	require.NoError(t, db.Close()) // nothing below gets as far as SQL
	for name, err := range map[string]error{
		"another row":            auctions.Update(t.Context(), claim("auction/8", 34), 7, sqlguard.Set{"bid": 1}),
		"another row, upsert":    auctions.Upsert(t.Context(), claim("auction/8", 34), 7, sqlguard.Set{"bid": 1}),
		"another table":          auctions.Update(t.Context(), claim("seat/7", 34), 7, sqlguard.Set{"bid": 1}),
		"another table, admit":   auctions.Admit(t.Context(), claim("seat/7", 34)),
		"another spelling":       auctions.Update(t.Context(), claim("auction/7", 34), "07", sqlguard.Set{"bid": 1}),
		"no key":                 auctions.Update(t.Context(), claim("auction/7", 34), nil, sqlguard.Set{"bid": 1}),
		"a key of another type":  auctions.Update(t.Context(), claim("auction/7", 34), 7.0, sqlguard.Set{"bid": 1}),
		"the key as a column":    auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"ID": 8}),
		"the mark as a column":   auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"Fence": 99}),
		"the holder as a column": auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"fence_holder": "x"}),
		"a column twice":         auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"bid": 1, "Bid": 2}),
		"no column":              auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"": 1}),
		"no holder column":       g.Table(once).Admit(t.Context(), claim("auction/7", 34)),
		"no table":               g.Table(sqlguard.Table{Key: "id", Fence: "fence"}).Update(t.Context(), claim("7", 34), 7, nil),
		"one column for two":     g.Table(sqlguard.Table{Name: "auctions", Key: "id", Fence: "ID"}).Update(t.Context(), claim("7", 34), 7, nil),
		"a resource with a tab":  g.Table(sqlguard.Table{Name: "auctions", Key: "id", Fence: "fence", Resource: "a\t"}).Update(t.Context(), claim("7", 34), 7, nil),
	} {
		assert.ErrorIs(t, err, fence.ErrInvalid, name)
	}
	assert.ErrorContains(t, g.Table(once).Admit(t.Context(), claim("auction/7", 34)), "Holder")
}

// One row, one resource: SQLite finds equal what is spelled differently, in columns of numbers and with
// a collation that knows no case. Nobody may reach a row by a second name.
func TestG08_ARowHasOneSpelling(t *testing.T) {
	for _, row := range []struct {
		name, key, right string
		wrong            []string
	}{
		{"integer", "INTEGER PRIMARY KEY", "7", []string{"07", "7.0", " 7", "7 ", "+7", "7e0", "0x7"}},
		{"bigint", "BIGINT UNIQUE", "9007199254740993", []string{"9007199254740993.0", "09007199254740993"}},
		{"numeric", "NUMERIC UNIQUE", "7", []string{"07", "7.0", " 7"}},
		{"nocase", "TEXT COLLATE NOCASE PRIMARY KEY", "abc", []string{"ABC", "Abc"}},
		{"rtrim", "TEXT COLLATE RTRIM PRIMARY KEY", "abc", []string{"abc ", "abc  "}},
	} {
		t.Run(row.name, func(t *testing.T) {
			db := newDB(t, "CREATE TABLE auctions (id "+row.key+", bid INTEGER, fence INTEGER, fence_holder TEXT)")
			auctions := newGuard(t, db).Table(full)
			resource := "auction/" + row.right
			require.NoError(t, auctions.Upsert(t.Context(), claim(resource, 34), row.right, sqlguard.Set{"bid": 120}))
			for _, wrong := range row.wrong {
				c := claim("auction/"+wrong, 99)
				require.ErrorIs(t, auctions.Update(t.Context(), c, wrong, sqlguard.Set{"bid": 1}), fence.ErrNotFound, wrong)
				require.ErrorIs(t, auctions.Admit(t.Context(), c), fence.ErrNotFound, wrong)
				require.ErrorIs(t, auctions.Upsert(t.Context(), c, wrong, sqlguard.Set{"bid": 1}), fence.ErrInvalid, wrong)
			}
			rejected(t, auctions.Update(t.Context(), claim(resource, 33), row.right, sqlguard.Set{"bid": 1}), fence.ErrStale, 34)
			assert.Equal(t, 120, one[int](t, db, "SELECT bid FROM auctions"))

			exec(t, db, "DELETE FROM auctions") // and the same where the row is yet to be made
			for _, wrong := range row.wrong {
				err := auctions.Upsert(t.Context(), claim("auction/"+wrong, 99), wrong, sqlguard.Set{"bid": 1})
				if row.name == "nocase" || row.name == "rtrim" {
					require.NoError(t, err, "the first spelling is the row's own")
					exec(t, db, "DELETE FROM auctions")
					continue
				}
				require.ErrorIs(t, err, fence.ErrInvalid, wrong)
				assert.Zero(t, one[int](t, db, "SELECT count(*) FROM auctions"), "%q: nothing is left behind", wrong)
			}
		})
	}
}

// A wrong spelling within a transaction takes back its own insert only.
func TestG08_WrongSpellingWithinATransaction(t *testing.T) {
	db := newDB(t, auctionsSQL)
	g := newGuard(t, db)
	auctions := g.Table(once)
	require.NoError(t, g.Do(t.Context(), claim("auctions", 1), func(ctx context.Context) error {
		require.ErrorIs(t, auctions.Upsert(ctx, claim("auction/07", 1), "07", nil), fence.ErrInvalid)
		return auctions.Upsert(ctx, claim("auction/8", 1), 8, nil)
	}))
	assert.Equal(t, 8, one[int](t, db, "SELECT sum(id) FROM auctions"))
}

type seat int

func TestG08_Keys(t *testing.T) {
	id := uuid.New()
	for _, row := range []struct {
		key  any
		text string
	}{{7, "7"}, {int8(-7), "-7"}, {uint64(math.MaxUint64), "18446744073709551615"}, {"a/b", "a/b"}, {seat(12), "12"}, {id, id.String()}} {
		db := newDB(t, "CREATE TABLE seats (id TEXT PRIMARY KEY, fence INTEGER)")
		seats := newGuard(t, db).Table(sqlguard.Table{Name: "seats", Key: "id", Fence: "fence"})
		require.NoError(t, seats.Upsert(t.Context(), claim(row.text, 1), row.key, nil))
		require.NoError(t, seats.Update(t.Context(), claim(row.text, 2), row.key, nil))
		assert.Equal(t, row.text, one[string](t, db, "SELECT id FROM seats"))
	}
}

func TestTable_MustFit(t *testing.T) {
	for _, row := range []struct{ name, table, want string }{
		{"no table", "CREATE TABLE bids (id INTEGER)", `there is none`},
		{"no key", "CREATE TABLE auctions (auction INTEGER PRIMARY KEY, fence INTEGER, fence_holder TEXT)", `no column "id"`},
		{"no fence", "CREATE TABLE auctions (id INTEGER PRIMARY KEY, fence_holder TEXT)", `no column "fence"`},
		{"no holder", "CREATE TABLE auctions (id INTEGER PRIMARY KEY, fence INTEGER)", `no column "fence_holder"`},
		{"key not unique", "CREATE TABLE auctions (id INTEGER, fence INTEGER, fence_holder TEXT)", "no unique index"},
		{"key of two", "CREATE TABLE auctions (id INTEGER, lot INTEGER, fence INTEGER, fence_holder TEXT, PRIMARY KEY (id, lot))", "no unique index"},
		{"partly unique", "CREATE TABLE auctions (id INTEGER, fence INTEGER, fence_holder TEXT); CREATE UNIQUE INDEX u ON auctions (id) WHERE id > 9", "no unique index"},
		{"view", "CREATE TABLE a (id INTEGER PRIMARY KEY, fence INTEGER, fence_holder TEXT); CREATE VIEW auctions AS SELECT * FROM a", "no unique index"},
		{"key of no type", "CREATE TABLE auctions (id UNIQUE, fence INTEGER, fence_holder TEXT)", "two keys"},
		{"key of any type", "CREATE TABLE auctions (id ANY PRIMARY KEY, fence INTEGER, fence_holder TEXT) STRICT", "two keys"},
		{"key of bytes", "CREATE TABLE auctions (id BLOB PRIMARY KEY, fence INTEGER, fence_holder TEXT)", "two keys"},
		{"fence of text", "CREATE TABLE auctions (id INTEGER PRIMARY KEY, fence TEXT, fence_holder TEXT)", "want INTEGER"},
		{"fence of doubles", "CREATE TABLE auctions (id INTEGER PRIMARY KEY, fence REAL, fence_holder TEXT)", "want INTEGER"},
	} {
		t.Run(row.name, func(t *testing.T) {
			auctions := newGuard(t, newDB(t, row.table)).Table(full)
			for _, err := range []error{
				auctions.Update(t.Context(), claim("auction/7", 1), 7, nil),
				auctions.Upsert(t.Context(), claim("auction/7", 1), 7, nil),
				auctions.Admit(t.Context(), claim("auction/7", 1)),
			} {
				require.ErrorIs(t, err, fence.ErrInvalid)
				require.ErrorContains(t, err, `"auctions"`)
				require.ErrorContains(t, err, row.want)
			}
		})
	}
}

// A table that is made in the transaction is found there, and one that was made good is looked at again.
func TestTable_IsLookedAtWhereItIs(t *testing.T) {
	db := newDB(t)
	g := newGuard(t, db)
	auctions := g.Table(once)
	require.ErrorIs(t, auctions.Update(t.Context(), claim("auction/7", 1), 7, nil), fence.ErrInvalid)
	require.NoError(t, g.Do(t.Context(), claim("schema", 1), func(ctx context.Context) error {
		tx, _ := sqlguard.TxFrom(ctx)
		_, err := tx.ExecContext(ctx, auctionsSQL)
		return errors.Join(err, auctions.Upsert(ctx, claim("auction/7", 1), 7, nil))
	}))
}

func TestTable_OddNames(t *testing.T) {
	db := newDB(t, `CREATE TABLE "a ""table""; --" ("the ""key""" TEXT PRIMARY KEY, "select" INTEGER, "or 1" TEXT, "a.b" TEXT)`)
	odd := newGuard(t, db).Table(sqlguard.Table{Name: `a "table"; --`, Key: `the "key"`, Fence: "select", Holder: "or 1"})
	c := claim("k", 34)
	require.NoError(t, odd.Upsert(t.Context(), c, "k", sqlguard.Set{"a.b": "x'y"}))
	require.NoError(t, odd.Update(t.Context(), c, "k", sqlguard.Set{"a.b": "y"}))
	rejected(t, odd.Update(t.Context(), claim("k", 33), "k", nil), fence.ErrStale, 34)
}

func TestTable_DatabaseErrorsAreTold(t *testing.T) {
	db := newDB(t, "CREATE TABLE auctions (id INTEGER PRIMARY KEY, bid INTEGER NOT NULL CHECK (bid < 1000), fence INTEGER)",
		"INSERT INTO auctions VALUES (7, 1, NULL)")
	auctions := newGuard(t, db).Table(once)
	for name, err := range map[string]error{
		"check":     auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"bid": 1000}),
		"not null":  auctions.Upsert(t.Context(), claim("auction/8", 34), 8, nil),
		"no column": auctions.Update(t.Context(), claim("auction/7", 34), 7, sqlguard.Set{"bids": 1}),
	} {
		var coded interface{ Code() int }
		require.ErrorAs(t, err, &coded, name)
		require.NotErrorIs(t, err, fence.ErrUnavailable, name)
	}
	assert.Zero(t, one[int](t, db, "SELECT count(*) FROM auctions WHERE fence IS NOT NULL"))
}

// A trigger that drops the write silently must not pass for an admission.
func TestTable_DroppedWriteIsAnError(t *testing.T) {
	db := newDB(t, auctionsSQL, "INSERT INTO auctions (id) VALUES (7)",
		"CREATE TRIGGER u BEFORE UPDATE ON auctions BEGIN SELECT RAISE(IGNORE); END",
		"CREATE TRIGGER i BEFORE INSERT ON auctions BEGIN SELECT RAISE(IGNORE); END",
		"CREATE TRIGGER m BEFORE INSERT ON fence_marks BEGIN SELECT RAISE(IGNORE); END")
	g := newGuard(t, db)
	auctions := g.Table(full)
	require.ErrorContains(t, auctions.Update(t.Context(), claim("auction/7", 1), 7, nil), "trigger")
	require.ErrorContains(t, auctions.Upsert(t.Context(), claim("auction/8", 1), 8, nil), "trigger")
	require.Error(t, g.Admit(t.Context(), claim("auction/7", 1)))
}

func TestSeal_ShutsOutTheOlderHolder(t *testing.T) {
	db := newDB(t, auctionsSQL, "INSERT INTO auctions (id) VALUES (7)")
	auctions := newGuard(t, db).Table(full)
	old, sealed := claim("auction/7", 33), claim("auction/7", 34)
	require.NoError(t, auctions.Admit(t.Context(), old))
	require.NoError(t, auctions.Admit(t.Context(), sealed))
	rejected(t, auctions.Update(t.Context(), old, 7, sqlguard.Set{"bid": 120}), fence.ErrStale, 34)
	for _, bid := range []int{110, 115} { // the full rule: many writes under one lease
		require.NoError(t, auctions.Update(t.Context(), sealed, 7, sqlguard.Set{"bid": bid}))
	}
	assert.Equal(t, 115, one[int](t, db, "SELECT bid FROM auctions"))
}
