package pgguard_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

type (
	number  int
	word    string
	weekday int
)

func (weekday) String() string { return "monday" }

// TestKey_GoTypes: what a key may be in Go, and what its text is.
func TestKey_GoTypes(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "CREATE TABLE things (name text PRIMARY KEY, fence bigint)")
	g := e.guard(t).Table(pgguard.Table{Name: "things", Key: "name", Fence: "fence"})
	id := uuid.New()
	for _, row := range []struct {
		key  any
		text string
	}{
		{"a", "a"},
		{word("b"), "b"},
		{json.Number("1.50"), "1.50"},
		{7, "7"},
		{int8(-8), "-8"},
		{int64(math.MinInt64), "-9223372036854775808"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{number(9), "9"},
		{weekday(1), "1"},
		{time.Duration(5), "5"},
		{id, id.String()},
		{pgtype.UUID{Bytes: id, Valid: true}, id.String()},
	} {
		require.NoError(t, g.Upsert(t.Context(), claim(row.text, fence.Token(e.number(t, "SELECT count(*)+1 FROM things"))), row.key, nil), "%T", row.key)
		require.EqualValues(t, 1, e.number(t, "SELECT count(*) FROM things WHERE name = $1", row.text))
		e.exec(t, "DELETE FROM things")
	}
	for _, key := range []any{nil, 1.5, true, &id, []byte("a"), struct{}{}, map[string]int{}, func() {}, (*uuid.UUID)(nil), error(nil)} {
		err := g.Upsert(t.Context(), claim("a", 1), key, nil)
		require.ErrorIs(t, err, fence.ErrInvalid, "%T", key)
		assert.ErrorContains(t, err, fmt.Sprintf("%T", key))
	}
}

// TestG08_OneRowHasOneName: for each type that a key column may have, spellings that PostgreSQL would
// take for the same value are refused before they write.
func TestG08_OneRowHasOneName(t *testing.T) {
	id := "8c6f1f0e-4f5a-4b52-9a39-0e9d7ad2a111"
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		e := newEnv(t, "default_query_exec_mode", mode)
		for keyType, row := range map[string]struct{ good, bad []string }{
			"smallint":   {[]string{"7", "-7", "0", "32767", "-32768"}, []string{"07", "+7", "-0", " 7", "7 ", "32768", "7.0", "0x7", "", "７"}},
			"integer":    {[]string{"7", "2147483647"}, []string{"007", "2147483648", "1e1", "7_0"}},
			"bigint":     {[]string{"7", "9223372036854775807", "-9223372036854775808"}, []string{"07", "9223372036854775808", "NaN"}},
			"uuid":       {[]string{id}, []string{strings.ToUpper(id), "{" + id + "}", strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id, id[:35], ""}},
			"text":       {[]string{"a", "A", "a ", " a", "", "07", "7", "ä", "a\u0308", "\\", "'"}, nil},
			"varchar":    {[]string{"a", "a ", "a  "}, nil},
			"varchar(3)": {[]string{"a", "a ", "äöü", "   "}, []string{"abcd", "abc ", "abc  ", "a   "}},
		} {
			e.exec(t, `CREATE TABLE "`+keyType+`" (name `+keyType+` PRIMARY KEY, fence bigint, holder uuid)`)
			g := e.guard(t).Table(pgguard.Table{Name: keyType, Key: "name", Resource: "thing/", Fence: "fence", Holder: "holder"})
			for i, key := range row.good {
				require.NoError(t, g.Upsert(t.Context(), claim("thing/"+key, 40-fence.Token(i)), key, nil), "%s %q has no row of its own", keyType, key)
				require.NoError(t, g.Update(t.Context(), claim("thing/"+key, 41), key, nil), "%s %q", keyType, key)
			}
			for _, key := range row.bad {
				for call, err := range map[string]error{
					"Upsert": g.Upsert(t.Context(), claim("thing/"+key, 50), key, nil),
					"Update": g.Update(t.Context(), claim("thing/"+key, 50), key, nil),
					"Admit":  g.Admit(t.Context(), claim("thing/"+key, 50)),
				} {
					require.ErrorIs(t, err, fence.ErrInvalid, "%s %s %q", call, keyType, key)
					require.ErrorContains(t, err, strconv.Quote(key))
				}
			}
			assert.EqualValues(t, len(row.good), e.number(t, `SELECT count(*) FROM "`+keyType+`"`))
			assert.EqualValues(t, 41, e.number(t, `SELECT max(fence) FROM "`+keyType+`"`))
		}
	}
}

// TestG08_UnfitTables are refused with what is wrong and what is wanted.
func TestG08_UnfitTables(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	e.exec(t, "CREATE DOMAIN code AS text")
	for name, row := range map[string]struct{ create, says string }{
		"no table":          {"", `there is no "things"`},
		"no key column":     {"CREATE TABLE things (nom text PRIMARY KEY, fence bigint, holder uuid)", `no column "name", which is its Key`},
		"no fence column":   {"CREATE TABLE things (name text PRIMARY KEY, holder uuid)", `no column "fence", which is its Fence`},
		"no holder column":  {"CREATE TABLE things (name text PRIMARY KEY, fence bigint)", `no column "holder", which is its Holder`},
		"other case":        {`CREATE TABLE things ("Name" text PRIMARY KEY, fence bigint, holder uuid)`, `no column "name"`},
		"integer fence":     {"CREATE TABLE things (name text PRIMARY KEY, fence integer, holder uuid)", `"fence" is integer, want bigint`},
		"numeric fence":     {"CREATE TABLE things (name text PRIMARY KEY, fence numeric, holder uuid)", "want bigint"},
		"text holder":       {"CREATE TABLE things (name text PRIMARY KEY, fence bigint, holder text)", `"holder" is text, want uuid`},
		"char key":          {"CREATE TABLE things (name char(9) PRIMARY KEY, fence bigint, holder uuid)", `"name" is character(9)`},
		"nocase key":        {"CREATE TABLE things (name text COLLATE nocase PRIMARY KEY, fence bigint, holder uuid)", "not deterministic"},
		"numeric key":       {"CREATE TABLE things (name numeric PRIMARY KEY, fence bigint, holder uuid)", `"name" is numeric`},
		"float key":         {"CREATE TABLE things (name float8 PRIMARY KEY, fence bigint, holder uuid)", `"name" is double precision`},
		"time key":          {"CREATE TABLE things (name timestamptz PRIMARY KEY, fence bigint, holder uuid)", "use InTx"},
		"domain key":        {"CREATE TABLE things (name code PRIMARY KEY, fence bigint, holder uuid)", `"name" is code`},
		"key not unique":    {"CREATE TABLE things (name text, fence bigint, holder uuid)", "no unique index"},
		"key part of one":   {"CREATE TABLE things (name text, n int, fence bigint, holder uuid, PRIMARY KEY (name, n))", "no unique index"},
		"key partly unique": {"CREATE TABLE things (name text, fence bigint, holder uuid); CREATE UNIQUE INDEX ON things (name) WHERE name > ''", "no unique index"},
		"key later unique":  {"CREATE TABLE things (name text UNIQUE DEFERRABLE, fence bigint, holder uuid)", "no unique index"},
		"lower(key) unique": {"CREATE TABLE things (name text, fence bigint, holder uuid); CREATE UNIQUE INDEX ON things (lower(name))", "no unique index"},
		"view":              {"CREATE VIEW things AS SELECT 'a'::text AS name, 1::bigint AS fence, NULL::uuid AS holder", "view"},
		"inherited":         {"CREATE TABLE things (name text PRIMARY KEY, fence bigint, holder uuid); CREATE TABLE more () INHERITS (things)", "inherit"},
	} {
		e.exec(t, "DROP VIEW IF EXISTS things")
		if row.create != "" {
			e.exec(t, row.create)
		}
		g := e.guard(t).Table(pgguard.Table{Name: "things", Key: "name", Fence: "fence", Holder: "holder"})
		for range 2 {
			err := g.Upsert(t.Context(), claim("a", 1), "a", nil)
			require.ErrorIs(t, err, fence.ErrInvalid, name)
			require.ErrorContains(t, err, row.says, name)
		}
		if row.create != "" && name != "view" {
			assert.Zero(t, e.number(t, "SELECT count(*) FROM things"), name)
			e.exec(t, "DROP TABLE things CASCADE")
		}
	}
}

// TestTable_FitsOnceRepaired: only a good answer is remembered.
func TestTable_FitsOnceRepaired(t *testing.T) {
	e := newEnv(t)
	count := &counting{DB: e.Pool}
	things := pgguard.Table{Name: e.schema + ".things", Key: "name", Fence: "fence"}
	g := newGuard(t, count)
	require.ErrorIs(t, g.Table(things).Upsert(t.Context(), claim("a", 1), "a", nil), fence.ErrInvalid)
	e.exec(t, "CREATE TABLE things (name text, fence bigint) PARTITION BY LIST (name)")
	e.exec(t, "CREATE TABLE things_a PARTITION OF things FOR VALUES IN ('a')")
	e.exec(t, "ALTER TABLE things ADD PRIMARY KEY (name)")
	require.NoError(t, g.Table(things).Upsert(t.Context(), claim("a", 1), "a", nil), "a partitioned table will do")
	before := count.calls.Load()
	require.NoError(t, g.Table(things).Update(t.Context(), claim("a", 2), "a", nil))
	assert.EqualValues(t, 1, count.calls.Load()-before, "the table is known, whichever TableGuard asked")
}

// TestG08_IndexThatFoldsCase: the arbiter of an upsert may be stricter than the column, and then leads
// to a row of another name.
func TestG08_IndexThatFoldsCase(t *testing.T) {
	e := newEnv(t)
	e.exec(t, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	e.exec(t, "CREATE TABLE things (name text PRIMARY KEY, fence bigint)")
	e.exec(t, "CREATE UNIQUE INDEX ON things (name COLLATE nocase)")
	g := e.guard(t).Table(pgguard.Table{Name: "things", Key: "name", Fence: "fence"})
	require.NoError(t, g.Upsert(t.Context(), claim("a", 1), "a", nil))
	require.Error(t, g.Upsert(t.Context(), claim("A", 9), "A", nil))
	assert.EqualValues(t, 1, e.number(t, "SELECT fence FROM things WHERE name = 'a'"))
}
