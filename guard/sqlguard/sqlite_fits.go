package sqlguard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// columns of a table, by the name that was asked for.
type columns map[string]column

type column struct {
	declared string // type
	alone    bool   // it is the primary key by itself
}

func (sqlite) fits(ctx context.Context, on querier, t Table) error {
	misfit := func(format string, args ...any) error {
		return fmt.Errorf("%w: table %q: %s", fence.ErrInvalid, t.Name, fmt.Sprintf(format, args...))
	}
	found, err := columnsOf(ctx, on, t)
	switch {
	case err != nil:
		return err
	case found == nil:
		return misfit("there is none; create it, with %s", wanted(t))
	}
	for _, name := range []string{t.Key, t.Fence, t.Holder} {
		if _, ok := found[name]; !ok && name != "" {
			return misfit("it has no column %q; it needs %s", name, wanted(t))
		}
	}
	unique := found[t.Key].alone
	if !unique {
		if unique, err = uniqueBy(ctx, on, t); err != nil {
			return err
		}
	}
	switch key, mark := found[t.Key].declared, found[t.Fence].declared; {
	case !unique:
		return misfit("its Key column %q has no unique index of its own (nor is it the primary key): two rows could have one key; use InTx", t.Key)
	case !converts(key):
		return misfit("its Key column %q is %q, in which the number 7 and the text 7 are two keys: want INTEGER or TEXT; use InTx", t.Key, key)
	case affinityOf(mark) != "INTEGER":
		return misfit("its Fence column %q is %q, want INTEGER", t.Fence, mark)
	}
	return nil
}

// wanted is what a table must have, for the error that says that it hasn't.
func wanted(t Table) string {
	s := fmt.Sprintf("%s INTEGER or TEXT PRIMARY KEY, %s INTEGER", quote(t.Key), quote(t.Fence))
	if t.Holder != "" {
		s += fmt.Sprintf(", %s TEXT", quote(t.Holder))
	}
	return s
}

func columnsOf(ctx context.Context, on querier, t Table) (columns, error) {
	rows, err := on.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_info(?)", t.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var found columns
	keys, key := 0, ""
	for rows.Next() {
		var name, declared string
		var pk int
		if err := rows.Scan(&name, &declared, &pk); err != nil {
			return nil, err
		}
		if found == nil {
			found = columns{}
		}
		for _, asked := range []string{t.Key, t.Fence, t.Holder} {
			if sameName(asked, name) {
				name = asked
			}
		}
		if pk > 0 {
			keys, key = keys+1, name
		}
		found[name] = column{declared: declared}
	}
	if keys == 1 {
		found[key] = column{declared: found[key].declared, alone: true}
	}
	return found, rows.Err()
}

func uniqueBy(ctx context.Context, on querier, t Table) (unique bool, err error) {
	err = on.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM pragma_index_list(?) AS l WHERE l."unique" = 1 AND l.partial = 0
		  AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1
		  AND (SELECT i.name FROM pragma_index_info(l.name) AS i) = ? COLLATE NOCASE)`, t.Name, t.Key).Scan(&unique)
	return unique, err
}

// affinityOf is the affinity of a column by its declared type, https://sqlite.org/datatype3.html §3.1.
func affinityOf(declared string) string {
	declared = strings.ToUpper(declared)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(declared, part) })
	}
	switch {
	case has("INT"):
		return "INTEGER"
	case has("CHAR", "CLOB", "TEXT"):
		return "TEXT"
	case declared == "" || has("BLOB"):
		return "BLOB"
	case has("REAL", "FLOA", "DOUB"):
		return "REAL"
	default:
		return "NUMERIC"
	}
}

// converts reports whether a column stores the number 7 and the text 7 as the same thing. ANY does in
// an ordinary table and doesn't in a STRICT one.
func converts(declared string) bool {
	return affinityOf(declared) != "BLOB" && !strings.EqualFold(declared, "ANY")
}
