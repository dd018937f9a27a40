package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

func (sqlite) write(ctx context.Context, in querier, t Table, w write) error {
	var written bool
	var err error
	if w.insert {
		written, err = upsert(ctx, in, t, w)
	} else {
		written, err = update(ctx, in, t, w)
	}
	if err != nil || written {
		return err
	}
	holder := "NULL"
	if t.Holder != "" {
		holder = t.column(t.Holder)
	}
	err = whyNot(in.QueryRowContext(ctx, "SELECT "+t.column(t.Fence)+", "+holder+" FROM "+quote(t.Name)+
		" WHERE "+t.isRow(), w.key, w.key), w.claim)
	switch {
	case !errors.Is(err, sql.ErrNoRows):
		return err
	case w.insert:
		return notInserted(ctx, in, t, w.key)
	default:
		return fmt.Errorf("%w: no row of table %q has the key %q", fence.ErrNotFound, t.Name, w.key)
	}
}

func update(ctx context.Context, in querier, t Table, w write) (written bool, err error) {
	names, values := assignments(t, w)
	for i, name := range names {
		names[i] = quote(name) + " = ?"
	}
	rule, ruleArgs := t.rule(w.claim)
	result, err := in.ExecContext(ctx, "UPDATE "+quote(t.Name)+" SET "+strings.Join(names, ", ")+
		" WHERE "+t.isRow()+" AND "+rule, slices.Concat(values, []any{w.key, w.key}, ruleArgs)...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func upsert(ctx context.Context, in querier, t Table, w write) (written bool, err error) {
	names, values := assignments(t, w)
	sets := make([]string, len(names))
	for i, name := range names {
		names[i] = quote(name)
		sets[i] = names[i] + " = excluded." + names[i]
	}
	rule, ruleArgs := t.rule(w.claim)
	var stored string
	err = in.QueryRowContext(ctx, "INSERT INTO "+quote(t.Name)+" ("+quote(t.Key)+", "+strings.Join(names, ", ")+
		") VALUES (?"+strings.Repeat(", ?", len(names))+") ON CONFLICT ("+quote(t.Key)+") DO UPDATE SET "+strings.Join(sets, ", ")+
		" WHERE "+t.isSpelled()+" AND "+rule+" RETURNING CAST("+quote(t.Key)+" AS TEXT)",
		slices.Concat([]any{w.key}, values, []any{w.key}, ruleArgs)...).Scan(&stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case code(err) == codeMismatch: // only of an INTEGER PRIMARY KEY
		return false, fmt.Errorf("%w: the key %q of table %q is not an integer: %w", fence.ErrInvalid, w.key, t.Name, err)
	case err != nil:
		return false, err
	case stored != w.key:
		return false, badSpelling(t, w.key)
	}
	return true, nil
}

// notInserted says why a key that no row has was not inserted.
func notInserted(ctx context.Context, in querier, t Table, key string) error {
	var taken bool
	err := in.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+quote(t.Name)+" WHERE "+t.column(t.Key)+" = ?)", key).Scan(&taken)
	switch {
	case err != nil:
		return err
	case taken:
		return badSpelling(t, key)
	default:
		return errBlocked
	}
}

func badSpelling(t Table, key string) error {
	return fmt.Errorf("%w: the key %q is spelled otherwise in the row of table %q, so its resource has another name", fence.ErrInvalid, key, t.Name)
}

// assignments are the columns that a write sets, and their values.
func assignments(t Table, w write) (names []string, values []any) {
	for _, name := range slices.Sorted(maps.Keys(w.set)) {
		names, values = append(names, name), append(values, w.set[name])
	}
	names, values = append(names, t.Fence), append(values, int64(w.claim.Token))
	if t.Holder != "" {
		names, values = append(names, t.Holder), append(values, holderText(w.claim.Holder))
	}
	return names, values
}

// rule is the condition under which the row's mark admits the claim.
func (t Table) rule(c fence.Claim) (condition string, args []any) {
	condition = "coalesce(" + t.column(t.Fence) + ", 0) < ?"
	args = []any{int64(c.Token)}
	if t.Holder != "" {
		condition += " OR (" + t.column(t.Fence) + " = ? AND " + t.column(t.Holder) + " = ?)"
		args = append(args, int64(c.Token), holderText(c.Holder))
	}
	return "(" + condition + ")", args
}

// isRow is the condition that picks the row with the key, which it takes twice: once as the column
// compares, which is what an index can answer, and once byte by byte.
func (t Table) isRow() string { return t.column(t.Key) + " = ? AND " + t.isSpelled() }

// isSpelled is the condition that the key is the row's own spelling. 07 equals 7 in an INTEGER column,
// a equals A in one with COLLATE NOCASE - also through a CAST, without a COLLATE of our own.
func (t Table) isSpelled() string { return "CAST(" + t.column(t.Key) + " AS TEXT) = ? COLLATE BINARY" }

// column is qualified: SQLite takes a lone "name" that is no column for a text.
func (t Table) column(name string) string { return quote(t.Name) + "." + quote(name) }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
