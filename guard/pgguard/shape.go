package pgguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// shape is what must be known of a table to write it.
type shape struct {
	key     keyKind
	quoted  quotedTable
	markSQL string // $1 key → token, holder
}

// The OIDs of types never change.
const (
	oidInt8    = 20
	oidInt2    = 21
	oidInt4    = 23
	oidText    = 25
	oidVarchar = 1043
	oidUUID    = 2950
)

// shapeSQL has one row for each column found, or one without a column, or none without a table. $1 is
// the table, $2 the key column, $3 and $4 the others.
const shapeSQL = `
SELECT c.relkind::text,
       EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute k ON k.attrelid = c.oid AND k.attnum = i.indkey[0]
               WHERE i.indrelid = c.oid AND k.attname::text = $2::text AND i.indnkeyatts = 1
                 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL),
       coalesce(a.attname::text, ''),
       coalesce(pg_catalog.format_type(a.atttypid, a.atttypmod), ''),
       coalesce(a.atttypid, 0)::int8,
       coalesce(a.atttypmod, 0)::int4,
       coalesce(l.collisdeterministic, true)
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attname::text IN ($2::text, $3::text, $4::text)
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE c.oid = pg_catalog.to_regclass($1::text)`

// relation is the answer.
type relation struct {
	kind             string
	parent, uniqueBy bool
	columns          map[string]column
}

type column struct {
	typeName      string
	oid           uint32
	modifier      int32
	deterministic bool // equal texts are the same bytes
}

// shape returns the table's shape. It is asked for once, and again only after an error. In a
// transaction it is asked for there: the table may be as new as the transaction, and a pool may have
// no second connection.
func (t *TableGuard) shape(ctx context.Context, o operation, j *joined) (*shape, error) {
	if known, ok := t.guard.shapes.Load(t.table); ok {
		return known.(*shape), nil
	}
	r, err := t.lookUp(ctx, j)
	if err != nil {
		return nil, o.uncommitted(ctx, err)
	}
	s, err := t.fit(r)
	if err != nil {
		return nil, fmt.Errorf("%w: pgguard: table %q: %w", fence.ErrInvalid, t.table.Name, err)
	}
	t.guard.shapes.Store(t.table, s)
	return s, nil
}

func (t *TableGuard) lookUp(ctx context.Context, j *joined) (*relation, error) {
	var r *relation
	err := t.read(ctx, j, func(rows pgx.Rows) (err error) {
		r, err = collectRelation(rows)
		return err
	}, shapeSQL, t.name.Sanitize(), t.table.Key, t.table.Fence, t.table.Holder)
	return r, err
}

func collectRelation(rows pgx.Rows) (*relation, error) {
	r := &relation{columns: map[string]column{}}
	var name string
	var c column
	var oid int64
	_, err := pgx.ForEachRow(rows, []any{&r.kind, &r.parent, &r.uniqueBy, &name, &c.typeName, &oid, &c.modifier, &c.deterministic}, func() error {
		c.oid = uint32(oid)
		r.columns[name] = c
		return nil
	})
	return r, err
}

// fit makes the shape, or says what does not fit.
func (t *TableGuard) fit(r *relation) (*shape, error) {
	switch {
	case r.kind == "":
		return nil, fmt.Errorf("there is no %s (names are taken with their upper and lower case; one without a schema is looked for in the search_path)", t.name.Sanitize())
	case r.kind != "r" && r.kind != "p":
		return nil, errors.New("it is a view or a foreign table, want a table; use InTx")
	case r.kind == "r" && r.parent:
		return nil, errors.New("other tables inherit from it, so its keys are not unique; use InTx")
	}
	key, err := r.column("Key", t.table.Key)
	if err != nil {
		return nil, err
	}
	kind, ok := keyKindOf(key.oid, key.modifier)
	switch {
	case !ok || !key.deterministic:
		return nil, fmt.Errorf("its Key column %q is %s%s, in which two spellings can be equal: want smallint, integer, bigint, uuid, or text or varchar "+
			"with a deterministic collation; use InTx", t.table.Key, key.typeName, collationNote(key))
	case !r.uniqueBy:
		return nil, fmt.Errorf("its Key column %q has no unique index of its own (nor a primary key; not partial, not deferrable): two rows could have one key; use InTx", t.table.Key)
	}
	if err := r.columnOf("Fence", t.table.Fence, oidInt8, "bigint"); err != nil {
		return nil, err
	}
	if t.table.Holder != "" {
		if err := r.columnOf("Holder", t.table.Holder, oidUUID, "uuid"); err != nil {
			return nil, err
		}
	}
	return newShape(t.table, t.name, kind), nil
}

func collationNote(c column) string {
	if c.deterministic {
		return ""
	}
	return " with a collation that is not deterministic"
}

func (r *relation) column(field, name string) (column, error) {
	c, ok := r.columns[name]
	if !ok {
		return column{}, fmt.Errorf("it has no column %q, which is its %s", name, field)
	}
	return c, nil
}

func (r *relation) columnOf(field, name string, oid uint32, want string) error {
	c, err := r.column(field, name)
	if err == nil && c.oid != oid {
		err = fmt.Errorf("its %s column %q is %s, want %s", field, name, c.typeName, want)
	}
	return err
}
