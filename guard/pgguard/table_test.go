package pgguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// once is the table under the once rule, full under the full rule.
var (
	once = pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"}
	full = pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence", Holder: "fence_holder"}
)

func TestC38_NullFenceIsZero(t *testing.T) {
	for name, table := range map[string]pgguard.Table{"once": once, "full": full} {
		e := newEnv(t)
		e.exec(t, "INSERT INTO auctions VALUES (7, 100, NULL, NULL)")
		g := e.guard(t).Table(table)
		require.ErrorIs(t, g.Update(t.Context(), claim("auction/7", 0), 7, pgguard.Set{"bid": 1}), fence.ErrInvalid, name)
		require.NoError(t, g.Update(t.Context(), claim("auction/7", 1), 7, pgguard.Set{"bid": 120}), name)
		got, token := e.row(t, 7)
		assert.EqualValues(t, 120, got)
		assert.EqualValues(t, 1, token)
	}
}

func TestC39_G02_ZeroRowsIsNotAnAnswer(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 34, $1)", uuid.NewString())
	e.exec(t, "INSERT INTO auctions VALUES (8, 100, 34, NULL)")
	onceRule, fullRule := e.guard(t).Table(once), e.guard(t).Table(full)
	for _, row := range []struct {
		name    string
		guard   *pgguard.TableGuard
		id      int
		claim   fence.Claim
		verdict error
	}{
		{"once, below", onceRule, 7, claim("auction/7", 33), fence.ErrStale},
		{"once, equal", onceRule, 7, claim("auction/7", 34), fence.ErrReplayed},
		{"full, below", fullRule, 7, claim("auction/7", 33), fence.ErrStale},
		{"full, equal", fullRule, 7, claim("auction/7", 34), fence.ErrDuplicate},
		{"full, equal, no holder", fullRule, 7, fence.Claim{Resource: "auction/7", Token: 34}, fence.ErrReplayed},
		{"full, equal, row without holder", fullRule, 8, claim("auction/8", 34), fence.ErrReplayed},
		{"full, equal, no holders", fullRule, 8, fence.Claim{Resource: "auction/8", Token: 34}, fence.ErrReplayed},
	} {
		requireRefused(t, row.guard.Update(t.Context(), row.claim, row.id, pgguard.Set{"bid": 1}), row.claim, row.verdict, 34)
		requireRefused(t, row.guard.Upsert(t.Context(), row.claim, row.id, pgguard.Set{"bid": 1}), row.claim, row.verdict, 34)
		got, token := e.row(t, row.id)
		assert.EqualValues(t, 100, got, row.name)
		assert.EqualValues(t, 34, token, row.name)
	}
	for _, g := range []*pgguard.TableGuard{onceRule, fullRule} {
		require.ErrorIs(t, g.Update(t.Context(), claim("auction/9", 33), 9, pgguard.Set{"bid": 1}), fence.ErrNotFound)
	}
	require.ErrorIs(t, fullRule.Admit(t.Context(), claim("auction/9", 33)), fence.ErrNotFound)
	assert.EqualValues(t, 2, e.number(t, "SELECT count(*) FROM auctions"))
}

// TestG01_Table_OlderWriterIsJudgedByTheNewestRow: it waits for the row and is then refused.
func TestG01_Table_OlderWriterIsJudgedByTheNewestRow(t *testing.T) {
	for name, isolation := range map[string]string{"read committed": "read committed", "repeatable read": "repeatable read"} {
		e := newEnv(t)
		e.exec(t, "INSERT INTO auctions VALUES (7, 100, 30)")
		g := newGuard(t, connectPool(t, withSettings(t, e.url, "default_transaction_isolation", isolation)))
		for write, f := range map[string]func(*pgguard.TableGuard, fence.Claim) error{
			"Update": func(g *pgguard.TableGuard, c fence.Claim) error {
				return g.Update(t.Context(), c, 7, pgguard.Set{"bid": 120})
			},
			"Upsert": func(g *pgguard.TableGuard, c fence.Claim) error {
				return g.Upsert(t.Context(), c, 7, pgguard.Set{"bid": 120})
			},
		} {
			_, mark := e.row(t, 7)
			older, newer := claim("auction/7", mark+1), claim("auction/7", mark+2)
			tx, err := e.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "UPDATE auctions SET bid = 130, fence = $1", int64(newer.Token))
			require.NoError(t, err)
			waiting := async(func() error { return f(g.Table(full), older) })
			e.blocked(t, 1)
			require.NoError(t, tx.Commit(t.Context()))
			requireRefused(t, waiting(), older, fence.ErrStale, newer.Token)
			got, _ := e.row(t, 7)
			assert.EqualValues(t, 130, got, "%s %s", name, write)
			e.exec(t, "UPDATE auctions SET bid = 100, fence = fence + 1, fence_holder = NULL")
		}
	}
}

func TestTable_FullRuleLetsAHolderWriteManyTimes(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	g := e.guard(t).Table(full)
	c := claim("auction/7", 33)
	require.NoError(t, g.Admit(t.Context(), c), "the row can seal a lease")
	for amount := range 3 {
		require.NoError(t, g.Update(t.Context(), c, 7, pgguard.Set{"bid": amount}))
	}
	other := claim("auction/7", 33)
	requireRefused(t, g.Admit(t.Context(), other), other, fence.ErrDuplicate, 33)
	require.NoError(t, g.Update(t.Context(), fence.Claim{Resource: "auction/7", Token: 34}, 7, nil), "without a holder: once")
	requireRefused(t, g.Update(t.Context(), c, 7, nil), c, fence.ErrStale, 34)
	again := fence.Claim{Resource: "auction/7", Token: 34}
	requireRefused(t, g.Update(t.Context(), again, 7, nil), again, fence.ErrReplayed, 34)
}

// TestG08_OnceRuleRefusesToSeal: the seal would use the claim up.
func TestG08_OnceRuleRefusesToSeal(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7)")
	err := e.guard(t).Table(once).Admit(t.Context(), claim("auction/7", 33))
	require.ErrorIs(t, err, fence.ErrInvalid)
	assert.ErrorContains(t, err, "Holder column")
	_, token := e.row(t, 7)
	assert.Zero(t, token)
}

// TestG08_ClaimAndRowAreOne: nothing is sent otherwise.
func TestG08_ClaimAndRowAreOne(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 30), (8, 100, 30)")
	count := &counting{DB: e.Pool}
	g := newGuard(t, count).Table(full)
	for resource, key := range map[string]any{
		"auction/8":  7,
		"auction/7":  "07",
		"auction/07": 7,
		"auction/":   7,
		"auction":    "",
		"seat/7":     7,
		"7":          "7",
		"auction/7 ": 7,
		"Auction/7":  7,
		"auction/+7": "7",
		"auction/77": int8(7),
	} {
		for call, err := range map[string]error{
			"Update": g.Update(t.Context(), claim(resource, 40), key, pgguard.Set{"bid": 1}),
			"Upsert": g.Upsert(t.Context(), claim(resource, 40), key, pgguard.Set{"bid": 1}),
		} {
			require.ErrorIs(t, err, fence.ErrInvalid, "%s of %v under %s", call, key, resource)
			assert.ErrorContains(t, err, resource)
		}
	}
	require.ErrorIs(t, g.Admit(t.Context(), claim("seat/7", 40)), fence.ErrInvalid)
	assert.Zero(t, count.calls.Load())
	assert.EqualValues(t, 60, e.number(t, "SELECT sum(fence) FROM auctions"))
}

func TestG08_SetMayNotNameKeyAndMark(t *testing.T) {
	count := &counting{DB: none(t)}
	g := newGuard(t, count).Table(full)
	for _, column := range []string{"id", "fence", "fence_holder", "", "a\x00", strings.Repeat("x", 64)} {
		err := g.Update(t.Context(), claim("auction/7", 1), 7, pgguard.Set{"bid": 1, column: 2})
		require.ErrorIs(t, err, fence.ErrInvalid, "%q", column)
	}
	assert.Zero(t, count.calls.Load())
}

func TestTable_FaultsAreToldByField(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, row := range []struct {
		table pgguard.Table
		says  string
	}{
		{pgguard.Table{Key: "id", Fence: "fence"}, "Table.Name"},
		{pgguard.Table{Name: "a.b.c", Key: "id", Fence: "fence"}, `Table.Name "a.b.c"`},
		{pgguard.Table{Name: "a.", Key: "id", Fence: "fence"}, "Table.Name"},
		{pgguard.Table{Name: long, Key: "id", Fence: "fence"}, "Table.Name"},
		{pgguard.Table{Name: "t", Fence: "fence"}, "Table.Key"},
		{pgguard.Table{Name: "t", Key: "id"}, "Table.Fence"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "id"}, "Table.Key"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "f", Holder: "id"}, "Table.Key"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "f", Holder: "f"}, "Table.Holder"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "f", Holder: long}, "Table.Holder"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "f", Resource: "a\n"}, "Table.Resource"},
		{pgguard.Table{Name: "t", Key: "id", Fence: "f", Resource: strings.Repeat("x", 512)}, "Table.Resource"},
	} {
		g := newGuard(t, none(t)).Table(row.table)
		for _, err := range []error{
			g.Update(t.Context(), claim("7", 1), 7, nil), g.Upsert(t.Context(), claim("7", 1), 7, nil), g.Admit(t.Context(), claim("7", 1)),
		} {
			require.ErrorIs(t, err, fence.ErrInvalid)
			require.ErrorContains(t, err, row.says)
		}
	}
}

func TestTable_UpsertMakesTheRow(t *testing.T) {
	e := newEnv(t)
	for name, table := range map[string]pgguard.Table{"once": once, "full": full} {
		g := e.guard(t).Table(table)
		e.exec(t, "TRUNCATE auctions")
		require.NoError(t, g.Upsert(t.Context(), claim("auction/7", 33), 7, pgguard.Set{"bid": 120}), name)
		require.NoError(t, g.Upsert(t.Context(), claim("auction/7", 34), 7, pgguard.Set{"bid": 130}), name)
		require.NoError(t, g.Upsert(t.Context(), claim("auction/7", 35), 7, nil), name)
		late := claim("auction/7", 34)
		requireRefused(t, g.Upsert(t.Context(), late, 7, pgguard.Set{"bid": 140}), late, fence.ErrStale, 35)
		got, token := e.row(t, 7)
		assert.EqualValues(t, 130, got)
		assert.EqualValues(t, 35, token)
	}
}

func TestC40_Table_EveryToken(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		g := e.guard(t).Table(full)
		for _, token := range []fence.Token{1, 2147483648, 9007199254740993, 9223372036854775806, 9223372036854775807} {
			require.NoError(t, g.Upsert(t.Context(), claim("auction/7", token), 7, pgguard.Set{"bid": 1}), mode)
			_, mark := e.row(t, 7)
			require.Equal(t, token, mark, mode)
		}
		late := claim("auction/7", 9223372036854775806)
		requireRefused(t, g.Update(t.Context(), late, 7, nil), late, fence.ErrStale, 9223372036854775807)
	}
}

// TestTable_BadValue: one that can't be sent is the caller's fault, and one that the server refuses is
// told as it is; the outcome is known.
func TestTable_BadValue(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		e.exec(t, "INSERT INTO auctions VALUES (7, 100)")
		g := e.guard(t)
		table := g.Table(full)
		writes := map[string]func(set pgguard.Set) error{
			"alone": func(set pgguard.Set) error { return table.Update(t.Context(), claim("auction/7", 33), 7, set) },
			"in Do": func(set pgguard.Set) error {
				return g.Do(t.Context(), claim("auction", 1), func(ctx context.Context) error {
					return table.Update(ctx, claim("auction/7", 33), 7, set)
				})
			},
		}
		for name, write := range writes {
			err := write(pgguard.Set{"bid": make(chan int)})
			require.ErrorIs(t, err, fence.ErrInvalid, "%s %s", mode, name)
			for _, other := range []error{fence.ErrOutcomeUnknown, fence.ErrUnavailable} {
				require.NotErrorIs(t, err, other, "%s %s", mode, name)
			}
			for says, set := range map[string]pgguard.Set{"22P02": {"bid": "much"}, "42703": {"bit": 1}, "23502": {"bid": nil}} {
				err := write(set)
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) {
					require.ErrorIs(t, err, fence.ErrInvalid, "%s %s %s: %v", mode, name, says, err) // found by pgx
					continue
				}
				assert.Equal(t, says, pgErr.Code, "%s %s", mode, name)
				require.NotErrorIs(t, err, fence.ErrOutcomeUnknown)
				require.NotErrorIs(t, err, fence.ErrUnavailable)
			}
		}
		got, token := e.row(t, 7)
		assert.EqualValues(t, 100, got)
		assert.Zero(t, token)
	}
}

// TestTable_HostileNames: names are data, also those that would be SQL.
func TestTable_HostileNames(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		hostile := `x"; DROP TABLE auctions; --`
		q := func(names ...string) string { return pgx.Identifier(names).Sanitize() }
		e.exec(t, "CREATE SCHEMA "+q(e.schema+hostile))
		t.Cleanup(func() { _, _ = e.Exec(context.Background(), "DROP SCHEMA "+q(e.schema+hostile)+" CASCADE") })
		e.exec(t, "CREATE TABLE "+q(e.schema+hostile, hostile)+" ("+q("Key "+hostile)+" text PRIMARY KEY, "+
			q("Fence $1 "+hostile)+" bigint, "+q("mark")+" uuid, "+q("select")+" text)")
		table := pgguard.Table{
			Name: e.schema + hostile + "." + hostile, Key: "Key " + hostile, Resource: "r'/", Fence: "Fence $1 " + hostile, Holder: "mark",
		}
		g := e.guard(t).Table(table)
		key := `k'"; DROP TABLE auctions; -- \ $1 ?`
		c := claim("r'/"+key, 33)
		require.NoError(t, g.Upsert(t.Context(), c, key, pgguard.Set{"select": "'; --"}), mode)
		require.NoError(t, g.Update(t.Context(), c, key, pgguard.Set{"select": `\'`}), mode)
		require.NoError(t, g.Admit(t.Context(), c), mode)
		late := claim("r'/"+key, 32)
		requireRefused(t, g.Update(t.Context(), late, key, nil), late, fence.ErrStale, 33)
		e.exec(t, "SELECT FROM auctions")
	}
}

// TestTable_RowThatKeepsItselfFromBeingWritten is told after a bounded number of tries.
func TestTable_RowThatKeepsItselfFromBeingWritten(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "INSERT INTO auctions VALUES (7, 100, 30)")
	e.exec(t, `CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	e.exec(t, `CREATE TRIGGER suppress BEFORE UPDATE ON auctions FOR EACH ROW EXECUTE FUNCTION suppress()`)
	err := e.guard(t).Table(once).Update(t.Context(), claim("auction/7", 33), 7, pgguard.Set{"bid": 1})
	require.ErrorIs(t, err, fence.ErrUnavailable)
	assert.ErrorContains(t, err, "trigger")
}

// TestG02_RowThatChangesInBetween: between a write that met no row and the reading of the mark, the
// row appears. The write is tried again.
func TestG02_RowThatChangesInBetween(t *testing.T) {
	e := newEnv(t)
	meddler := &meddling{DB: e.Pool}
	g := newGuard(t, meddler).Table(once)
	meddler.beforeMark = func() { e.exec(t, "INSERT INTO auctions VALUES (7, 100, 30)") }
	require.NoError(t, g.Update(t.Context(), claim("auction/7", 33), 7, pgguard.Set{"bid": 120}))
	got, token := e.row(t, 7)
	assert.EqualValues(t, 120, got)
	assert.EqualValues(t, 33, token)

	// The row goes between a refused upsert and the reading of the mark.
	meddler.beforeMark = func() { e.exec(t, "DELETE FROM auctions") }
	require.NoError(t, g.Upsert(t.Context(), claim("auction/7", 32), 7, pgguard.Set{"bid": 130}), "a deleted row forgets its mark")
}

// meddling does something once before the mark of a row is read.
type meddling struct {
	pgguard.DB
	beforeMark func()
}

func (m *meddling) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if f := m.beforeMark; f != nil && strings.Contains(sql, "AS mark") {
		m.beforeMark = nil
		f()
	}
	return m.DB.Query(ctx, sql, args...)
}

// TestTable_InDoTakesPart: with the function's context the write is part of the transaction, also on a
// pool that has no second connection.
func TestTable_InDoTakesPart(t *testing.T) {
	e := newEnv(t)
	conn, err := e.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	g := newGuard(t, conn)
	boom := errors.New("boom")
	err = g.Do(t.Context(), claim("batch", 1), func(ctx context.Context) error {
		tx, ok := pgguard.TxFrom(ctx)
		require.True(t, ok)
		_, err := tx.Exec(ctx, "CREATE TABLE made (id uuid PRIMARY KEY, fence bigint, v text)")
		require.NoError(t, err)
		id := uuid.New()
		made := g.Table(pgguard.Table{Name: "made", Key: "id", Resource: "made/", Fence: "fence"})
		require.NoError(t, made.Upsert(ctx, claim("made/"+id.String(), 5), id, pgguard.Set{"v": "x"}))
		require.ErrorIs(t, made.Update(ctx, claim("made/"+uuid.Nil.String(), 5), uuid.Nil, nil), fence.ErrNotFound)
		return boom
	})
	require.Same(t, boom, err)
	require.Zero(t, e.number(t, "SELECT count(*) FROM pg_class WHERE relname = 'made' AND relnamespace = $1::text::regnamespace", e.schema))
	_, ok := pgguard.TxFrom(t.Context())
	require.False(t, ok)
}

// TestG08_TriggerThatChangesTheKey would have the row written under a claim for another.
func TestG08_TriggerThatChangesTheKey(t *testing.T) {
	e := newEnv(t)
	e.exec(t, `
		CREATE TABLE users (name text PRIMARY KEY, n integer, fence bigint, fence_holder uuid);
		CREATE FUNCTION fold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.name := lower(NEW.name); RETURN NEW; END';
		CREATE TRIGGER fold BEFORE INSERT OR UPDATE ON users FOR EACH ROW EXECUTE FUNCTION fold();`)
	users := e.guard(t).Table(pgguard.Table{Name: "users", Key: "name", Resource: "user/", Fence: "fence", Holder: "fence_holder"})
	err := users.Upsert(t.Context(), claim("user/Ann", 50), "Ann", pgguard.Set{"n": 1})
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.ErrorContains(t, err, "changed the key to ann")
	assert.Zero(t, e.number(t, "SELECT count(*) FROM users"), "the row of user/ann was written without its claim")
	require.NoError(t, users.Upsert(t.Context(), claim("user/ann", 3), "ann", pgguard.Set{"n": 1}))
	e.exec(t, "ALTER TABLE users DISABLE TRIGGER fold; INSERT INTO users VALUES ('Bob'); ALTER TABLE users ENABLE TRIGGER fold")
	require.ErrorIs(t, users.Update(t.Context(), claim("user/Bob", 5), "Bob", pgguard.Set{"n": 1}), fence.ErrInvalid)
	assert.Zero(t, e.number(t, "SELECT count(*) FROM users WHERE name = 'bob'"))
}
