package pgguard

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// verb is what a write of a TableGuard does.
type verb int

const (
	update verb = iota
	upsert
)

func (v verb) String() string {
	if v == upsert {
		return "upsert"
	}
	return "update"
}

// quotedTable is the names of a Table as SQL.
type quotedTable struct {
	name, key, fence string
	holder           string // "" if there is none
}

func newShape(t Table, name pgx.Identifier, kind keyKind) *shape {
	q := quotedTable{name: name.Sanitize(), key: quote(t.Key), fence: quote(t.Fence)}
	holder := nobody
	if t.Holder != "" {
		q.holder = quote(t.Holder)
		holder = "coalesce(mark." + q.holder + ", " + nobody + ")"
	}
	return &shape{key: kind, quoted: q, markSQL: "SELECT coalesce(mark." + q.fence + ", 0)::pg_catalog.int8, " + holder +
		"::pg_catalog.text FROM " + q.name + " AS mark WHERE mark." + q.key + " = $1::" + kind.sql}
}

// statement returns the SQL of a write and its arguments: set's values, the key, the holder if the
// table has one, the token. The text depends on nothing but the table and the names in set, in their
// order: pgx caches statements by it.
func (s *shape) statement(v verb, c fence.Claim, key string, set Set) (string, []any) {
	q := s.quoted
	names := slices.Sorted(maps.Keys(set))
	args := make([]any, 0, len(names)+3)
	columns := make([]string, 0, len(names)+2)
	for _, name := range names {
		args = append(args, set[name])
		columns = append(columns, quote(name))
	}
	args = append(args, key)
	keyValue := parameter(len(args), s.key.sql)
	holder := ""
	if q.holder != "" {
		args = append(args, c.Holder.String())
		holder = parameter(len(args), "pg_catalog.uuid")
		columns = append(columns, q.holder)
	}
	args = append(args, c.Token)
	token := parameter(len(args), "pg_catalog.int8")
	columns = append(columns, q.fence)

	value := func(i int) string {
		switch {
		case i == len(columns)-1:
			return token
		case i == len(names):
			return holder
		default:
			return parameter(i+1, "")
		}
	}

	var b strings.Builder
	b.Grow(512)
	write := func(parts ...string) {
		for _, part := range parts {
			b.WriteString(part)
		}
	}
	if v == upsert {
		write("INSERT INTO ", q.name, " AS mark (", q.key)
		for _, column := range columns {
			write(", ", column)
		}
		write(") VALUES (", keyValue)
		for i := range columns {
			write(", ", value(i))
		}
		write(") ON CONFLICT (", q.key, ") DO UPDATE SET ")
	} else {
		write("UPDATE ", q.name, " AS mark SET ")
	}
	for i, column := range columns {
		if i > 0 {
			write(", ")
		}
		write(column, " = ")
		if v == upsert {
			write("excluded.", column)
		} else {
			write(value(i))
		}
	}
	// The key is compared also where it was the conflict: an index may fold what the column tells apart.
	write(" WHERE mark.", q.key, " = ", keyValue, " AND (coalesce(mark.", q.fence, ", 0) < ", token)
	if holder != "" {
		write(" OR (mark.", q.fence, " = ", token, " AND mark.", q.holder, " = ", holder, " AND ", holder, " <> ", nobody, ")")
	}
	// A trigger that gives the row another key has it written under a claim that isn't its own: that must
	// fail. The cast does, and only it is evaluated.
	write(") RETURNING CASE WHEN mark.", q.key, " = ", keyValue, " THEN 1 ELSE ('", otherKey, "' || mark.", q.key, "::pg_catalog.text)::pg_catalog.int4 END")
	return b.String(), args
}

const otherKey = "Ringfence: a trigger has changed the key to "

var nobody = "'" + uuid.Nil.String() + "'::pg_catalog.uuid"

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// parameter is the n-th, with its type unless the column it goes to tells.
func parameter(n int, sqlType string) string {
	if sqlType == "" {
		return "$" + strconv.Itoa(n)
	}
	return "$" + strconv.Itoa(n) + "::" + sqlType
}
