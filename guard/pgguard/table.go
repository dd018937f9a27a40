package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/internal/rowkey"
)

// Table describes rows that carry their own mark. A row is its mark: a resource whose row does so must
// not be admitted through [Guard.InTx] as well, and its row must be kept - a deleted row forgets which
// claims are old, which is why there is no Delete. To delete rows, use InTx.
//
// Names are taken as they are, upper and lower case and all; none needs quotes.
type Table struct {
	Name     string // "auctions" or, with its schema, "app.auctions"
	Key      string // the column that a unique index names rows by: smallint, integer, bigint, uuid, text or varchar
	Resource string // what precedes the key in the names of resources: "auction/" for auction/7; may be empty
	Fence    string // the column of the token: bigint; NULL is 0
	Holder   string // the column of the holder: uuid; NULL is zero. "": the table has none
}

// Set is what a write puts into columns, by column name; the values are sent as parameters. It must not
// name the Key, Fence and Holder columns. An empty Set writes the mark alone.
type Set map[string]any

// TableGuard guards the rows of a table, each by the mark in it. With a Holder column it keeps the full
// rule: the holder of a claim may write many times under it. Without one it keeps the once rule: one
// write per token, a second is [fence.ErrReplayed]. It is safe for concurrent use if its [Guard] is.
//
// A write is one statement that commits by itself, in one round trip; with a context of [Guard.Do] it
// is part of that transaction, and a refusal then keeps the transaction from being committed. Only the
// first use of a table asks the server for its columns before.
type TableGuard struct {
	guard *Guard
	table Table
	name  pgx.Identifier
	fault error
}

var _ guard.Guard = (*TableGuard)(nil)

// Table returns a guard of t's rows. A fault in t is an error of every use, wraps [fence.ErrInvalid]
// and names the field; columns that are missing or of an unfit type are told likewise.
func (g *Guard) Table(t Table) *TableGuard {
	name := strings.Split(t.Name, ".")
	return &TableGuard{guard: g, table: t, name: name, fault: t.validate(name)}
}

func (t Table) validate(name []string) error {
	invalid := func(field, value, want string) error {
		return fmt.Errorf("%w: pgguard: Table.%s %q: want %s", fence.ErrInvalid, field, value, want)
	}
	if len(name) > 2 {
		return invalid("Name", t.Name, "a table, or schema.table")
	}
	for _, part := range name {
		if !validName(part) {
			return invalid("Name", t.Name, "a table, or schema.table, of 1 to 63 bytes each")
		}
	}
	const column = "a column, 1 to 63 bytes"
	switch {
	case !validName(t.Key):
		return invalid("Key", t.Key, column)
	case !validName(t.Fence):
		return invalid("Fence", t.Fence, column)
	case t.Holder != "" && !validName(t.Holder):
		return invalid("Holder", t.Holder, column)
	case t.Key == t.Fence, t.Key == t.Holder:
		return invalid("Key", t.Key, "a column of its own")
	case t.Fence == t.Holder:
		return invalid("Holder", t.Holder, "a column of its own")
	}
	if err := fence.ValidateResource(t.Resource + "k"); err != nil {
		return fmt.Errorf("pgguard: Table.Resource %q: %w", t.Resource, err)
	}
	return nil
}

// Update writes set into the row with that key, and the claim into its mark, if the mark admits it.
// The claim's resource must be Table.Resource followed by the key. The key is a string, an integer, or
// something with a String method that is not a pointer, as uuid.UUID; it has one spelling: "7", not
// "07", and UUIDs in lower case.
//
// Errors: a *[fence.RejectedError]; [fence.ErrNotFound] if there is no such row; [fence.ErrInvalid];
// [fence.ErrUnavailable]: nothing was written; [fence.ErrOutcomeUnknown]: the answer was lost and it is
// not sent again - under the once rule, a second try tells by [fence.ErrReplayed] that it was written;
// or what the server says, with the *pgconn.PgError in the chain.
func (t *TableGuard) Update(ctx context.Context, c fence.Claim, key any, set Set) error {
	return t.write(ctx, c, key, set, update)
}

// Upsert inserts the row with that key, or does what [TableGuard.Update] does if there is one. Errors
// are those of Update without [fence.ErrNotFound].
func (t *TableGuard) Upsert(ctx context.Context, c fence.Claim, key any, set Set) error {
	return t.write(ctx, c, key, set, upsert)
}

// Admit admits c to the row that c's resource names, without other changes: it seals a lease. That
// needs a Holder column - under the once rule it would use c up - and is [fence.ErrInvalid] without.
// Errors are those of [TableGuard.Update].
func (t *TableGuard) Admit(ctx context.Context, c fence.Claim) error {
	if t.fault != nil {
		return t.fault
	}
	if t.table.Holder == "" {
		return fmt.Errorf("%w: pgguard: Admit on table %q: it has no Holder column, so the claim could write only once and "+
			"this would be its write; add one, or use Update", fence.ErrInvalid, t.table.Name)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	key, found := strings.CutPrefix(c.Resource, t.table.Resource)
	if !found {
		return fmt.Errorf("%w: pgguard: resource %q is not of table %q: want %q and a key", fence.ErrInvalid, c.Resource, t.table.Name, t.table.Resource)
	}
	return t.write(ctx, c, key, nil, update)
}

func (t *TableGuard) write(ctx context.Context, c fence.Claim, key any, set Set, v verb) error {
	o := operation{name: v.String(), claim: c, table: t.table.Name}
	if t.fault != nil {
		return t.fault
	}
	if err := t.table.check(c, key, set); err != nil {
		return err
	}
	if err := t.guard.ready(ctx, o); err != nil {
		return err
	}
	j := t.guard.joined(ctx)
	if j == nil {
		if err := t.guard.alone(o); err != nil {
			return err
		}
	}
	text := c.Resource[len(t.table.Resource):]
	shape, err := t.shape(ctx, o, j)
	if err != nil {
		return err
	}
	if err := shape.key.check(text); err != nil {
		return fmt.Errorf("%w: pgguard: table %q: key %q: %w", fence.ErrInvalid, t.table.Name, text, err)
	}
	sql, args := shape.statement(v, c, text, set)
	return j.note(t.decide(ctx, o, j, v, shape, text, sql, args))
}

// check is what needs no server: that claim and key name the same thing, and what set may not name.
func (t Table) check(c fence.Claim, key any, set Set) error {
	if err := c.Validate(); err != nil {
		return err
	}
	text, err := rowkey.Text(key)
	if err != nil {
		return fmt.Errorf("pgguard: table %q: %w", t.Name, err)
	}
	if c.Resource != t.Resource+text {
		return fmt.Errorf("%w: pgguard: the claim is for %q, the row of table %q with key %q is %q",
			fence.ErrInvalid, c.Resource, t.Name, text, t.Resource+text)
	}
	for column := range set {
		switch {
		case !validName(column):
			return fmt.Errorf("%w: pgguard: Set names the column %q: want 1 to %d bytes", fence.ErrInvalid, column, maxName)
		case column == t.Key, column == t.Fence, column == t.Holder:
			return fmt.Errorf("%w: pgguard: Set names the column %q: the key and the mark are the guard's to write", fence.ErrInvalid, column)
		}
	}
	return nil
}

// vanishes is how often a write is tried that meets no row that it may write, although the mark that is
// found afterwards would admit it: the row was changed, removed or brought back in between.
const vanishes = 8

// decide sends the write. That it wrote no row is no answer yet: a second statement reads why.
func (t *TableGuard) decide(ctx context.Context, o operation, j *joined, v verb, s *shape, key, sql string, args []any) error {
	for range vanishes {
		tag, err := t.exec(ctx, o, j, sql, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			return nil
		}
		mark, err := t.mark(ctx, j, s, key)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && v == update:
			return fmt.Errorf("pgguard: %v: %w", o, fence.ErrNotFound)
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return o.uncommitted(ctx, err)
		}
		if err := mark.Judge(o.claim); err != nil {
			return err
		}
	}
	return fmt.Errorf("pgguard: %v: %w: nothing was written in %d tries though the mark admits it: "+
		"the row keeps changing, or a trigger, a rule or row security keeps the write from it", o, fence.ErrUnavailable, vanishes)
}

func (t *TableGuard) exec(ctx context.Context, o operation, j *joined, sql string, args []any) (pgconn.CommandTag, error) {
	if j != nil {
		return within(ctx, o, j.tx, sql, args)
	}
	return t.guard.autocommit(ctx, o, sql, args)
}

// mark reads the mark of a row, or pgx.ErrNoRows.
func (t *TableGuard) mark(ctx context.Context, j *joined, s *shape, key string) (mark guard.Mark, err error) {
	err = t.read(ctx, j, func(rows pgx.Rows) error {
		mark, err = pgx.CollectOneRow(rows, scanMark)
		return err
	}, s.markSQL, key)
	return mark, err
}

func scanMark(row pgx.CollectableRow) (guard.Mark, error) {
	var token int64
	var holder string
	if err := row.Scan(&token, &holder); err != nil {
		return guard.Mark{}, err
	}
	id, err := uuid.Parse(holder)
	return guard.Mark{Token: fence.Token(token), Holder: id}, err
}

// read asks for rows: in the transaction if there is one, or else again if need be.
func (t *TableGuard) read(ctx context.Context, j *joined, collect func(pgx.Rows) error, sql string, args ...any) error {
	query := t.guard.db.Query
	if j != nil {
		query = j.tx.Query
	}
	for try := 1; ; try++ {
		rows, err := query(ctx, sql, args...)
		if err == nil {
			err = collect(rows)
		}
		if err == nil || j != nil || try == maxTries || !hadNoEffect(err) {
			return err
		}
	}
}
