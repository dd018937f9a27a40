package sqlguard

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/internal/rowkey"
)

// Table describes rows that carry their own mark. A row is its mark: a resource whose row does so must
// not be admitted through [Guard.InTx] as well, and its row must be kept - a deleted row forgets which
// claims are old, which is why there is no Delete. To delete rows, use InTx.
//
// Names need no quotes.
type Table struct {
	Name     string // "auctions"
	Key      string // the column that names a row, by itself unique or the primary key: INTEGER, TEXT or the like
	Resource string // what precedes the key in the names of resources: "auction/" for auction/7; may be empty
	Fence    string // the column of the token: INTEGER; NULL is 0
	Holder   string // the column of the holder: TEXT; NULL is none. "": the table has no such column
}

// Set is what a write puts into columns, by column name; the values are sent as parameters. It must not
// name the Key, Fence and Holder columns. An empty Set writes the mark alone.
type Set map[string]any

// TableGuard guards the rows of a table, each by the mark in it. With a Holder column it keeps the full
// rule: the holder of a claim may write many times under it. Without one it keeps the once rule: one
// write per token, a second is [fence.ErrReplayed]. It is safe for concurrent use.
//
// A write is a transaction of its own; with a context of [Guard.Do] it is part of that transaction, and
// a refusal then keeps the transaction from being committed. The first use of a table looks at its
// columns before.
type TableGuard struct {
	guard *Guard
	table Table
	fault error
}

var _ guard.Guard = (*TableGuard)(nil)

// Table returns a guard of t's rows. A fault in t is an error of every use, wraps [fence.ErrInvalid]
// and names the field; a table or columns that are missing or don't fit are told likewise.
func (g *Guard) Table(t Table) *TableGuard {
	return &TableGuard{guard: g, table: t, fault: t.validate()}
}

func (t Table) validate() error {
	invalid := func(field, value, want string) error {
		return fmt.Errorf("%w: sqlguard: Table.%s %q: want %s", fence.ErrInvalid, field, value, want)
	}
	switch {
	case !validName(t.Name):
		return invalid("Name", t.Name, "a table")
	case !validName(t.Key):
		return invalid("Key", t.Key, "a column")
	case !validName(t.Fence):
		return invalid("Fence", t.Fence, "a column")
	case t.Holder != "" && !validName(t.Holder):
		return invalid("Holder", t.Holder, "a column")
	case sameName(t.Key, t.Fence), sameName(t.Key, t.Holder):
		return invalid("Key", t.Key, "a column of its own")
	case sameName(t.Fence, t.Holder):
		return invalid("Holder", t.Holder, "a column of its own")
	}
	if err := fence.ValidateResource(t.Resource + "k"); err != nil {
		return fmt.Errorf("sqlguard: Table.Resource %q: %w", t.Resource, err)
	}
	return nil
}

func validName(name string) bool { return name != "" && !strings.ContainsRune(name, 0) }

// sameName reports whether two column names are one: they don't differ by case.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// Update writes set into the row with that key, and the claim into its mark, if the mark admits it.
// The claim's resource must be Table.Resource followed by the key. The key is a string, an integer, or
// something with a String method that is not a pointer, as uuid.UUID; it is spelled as the row is: "7",
// not "07".
//
// Errors: a *[fence.RejectedError]; [fence.ErrNotFound] if there is no such row; [fence.ErrInvalid];
// [fence.ErrUnavailable]: nothing was written; [fence.ErrOutcomeUnknown]: see the package comment -
// under the once rule, a second try tells by [fence.ErrReplayed] that it was written; or what the
// database says, with the driver's error in the chain.
func (t *TableGuard) Update(ctx context.Context, c fence.Claim, key any, set Set) error {
	return t.write(ctx, c, key, set, false)
}

// Upsert inserts the row with that key, or does what [TableGuard.Update] does if there is one. Errors
// are those of Update without [fence.ErrNotFound].
func (t *TableGuard) Upsert(ctx context.Context, c fence.Claim, key any, set Set) error {
	return t.write(ctx, c, key, set, true)
}

// Admit admits c to the row that c's resource names, without other changes: it seals a lease. That
// needs a Holder column - under the once rule it would use c up - and is [fence.ErrInvalid] without.
// Errors are those of [TableGuard.Update].
func (t *TableGuard) Admit(ctx context.Context, c fence.Claim) error {
	if t.fault != nil {
		return t.fault
	}
	if t.table.Holder == "" {
		return fmt.Errorf("%w: sqlguard: Admit on table %q: it has no Holder column, so the claim could write only once and "+
			"this would be its write; add one, or use Update", fence.ErrInvalid, t.table.Name)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	key, found := strings.CutPrefix(c.Resource, t.table.Resource)
	if !found {
		return fmt.Errorf("%w: sqlguard: resource %q is not of table %q: want %q and a key", fence.ErrInvalid, c.Resource, t.table.Name, t.table.Resource)
	}
	return t.write(ctx, c, key, nil, false)
}

// write is one write of a row.
type write struct {
	claim  fence.Claim
	key    string
	set    Set
	insert bool // if there is no row
}

func (t *TableGuard) write(ctx context.Context, c fence.Claim, key any, set Set, insert bool) error {
	if t.fault != nil {
		return t.fault
	}
	text, err := t.table.check(c, key, set)
	if err != nil {
		return err
	}
	o := operation{"write to table " + t.table.Name + " by", c}
	if err := t.look(ctx, o); err != nil {
		return err
	}
	w := write{claim: c, key: text, set: set, insert: insert}
	return t.guard.run(ctx, o, func(ctx context.Context, tx *sql.Tx) error {
		return t.guard.dialect.write(ctx, tx, t.table, w)
	}, nil)
}

// check is what needs no database: that claim and key name the same thing, and what set may not name.
func (t Table) check(c fence.Claim, key any, set Set) (text string, err error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	text, err = rowkey.Text(key)
	if err != nil {
		return "", fmt.Errorf("sqlguard: table %q: %w", t.Name, err)
	}
	if c.Resource != t.Resource+text {
		return "", fmt.Errorf("%w: sqlguard: the claim is for %q, the row of table %q with key %q is %q",
			fence.ErrInvalid, c.Resource, t.Name, text, t.Resource+text)
	}
	seen := make([]string, 0, len(set))
	for column := range set {
		switch {
		case !validName(column):
			return "", fmt.Errorf("%w: sqlguard: Set names the column %q: want a column", fence.ErrInvalid, column)
		case sameName(column, t.Key), sameName(column, t.Fence), sameName(column, t.Holder):
			return "", fmt.Errorf("%w: sqlguard: Set names the column %q: the key and the mark are the guard's to write", fence.ErrInvalid, column)
		}
		for _, other := range seen {
			if sameName(column, other) {
				return "", fmt.Errorf("%w: sqlguard: Set names the column %q twice, also as %q", fence.ErrInvalid, column, other)
			}
		}
		seen = append(seen, column)
	}
	return text, nil
}

// look looks at the table once, and again only after an error. It does so before the transaction, which
// must begin with its write, or in the one that ctx carries: a pool may have no second connection.
func (t *TableGuard) look(ctx context.Context, o operation) error {
	if _, known := t.guard.fitting.Load(t.table); known {
		return nil
	}
	if err := o.ready(ctx); err != nil {
		return err
	}
	look := func(on querier) error { return t.guard.failed(ctx, o, t.guard.dialect.fits(ctx, on, t.table)) }
	var err error
	if s := t.guard.joined(ctx); s != nil {
		err = look(s.tx)
	} else {
		err = t.guard.withConn(ctx, o, func(conn *sql.Conn) error { return look(conn) })
	}
	if err == nil {
		t.guard.fitting.Store(t.table, struct{}{})
	}
	return err
}
