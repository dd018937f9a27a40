package pgguard

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/migrations"
)

// migrationLock is the advisory lock that migrations of one database take turns by ("RINGFENC"). It
// belongs to the transaction.
const migrationLock int64 = 0x52494e4746454e43

// Migrate brings fence_marks and fence_admit up to date, in the schema of [WithSchema] (created if it
// is missing) or else in the first of the connection's search_path. What was applied is recorded in the
// table fence_migrations there. It may run in several processes at once and at every start of a
// program: what is up to date needs no privilege but to read that table. All is done in one
// transaction, of which nothing remains if it fails.
//
// Don't use it for a schema that a migration tool takes care of, see package migrations.
func Migrate(ctx context.Context, db DB, opts ...Option) error {
	g, err := New(db, opts...)
	if err != nil {
		return err
	}
	o := operation{name: "migrate"}
	if err := g.alone(o); err != nil {
		return err
	}
	// The statements after the lock must see what the one who held it before has done.
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return o.uncommitted(ctx, err)
	}
	if err := migrate(ctx, tx, g.schema); err != nil {
		rollback(ctx, tx)
		return o.uncommitted(ctx, err)
	}
	return o.commit(ctx, tx)
}

func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", migrationLock); err != nil {
		return err
	}
	if schema != "" {
		if err := enterSchema(ctx, tx, schema); err != nil {
			return err
		}
	}
	applied, err := appliedMigrations(ctx, tx)
	if err != nil {
		return err
	}
	for _, m := range migrations.Postgres.All() {
		if slices.Contains(applied, m.Version) {
			continue
		}
		if _, err := tx.Exec(ctx, m.Up); err != nil {
			return fmt.Errorf("migration %d %s: %w", m.Version, m.Name, err)
		}
		if _, err := tx.Exec(ctx, "INSERT INTO fence_migrations (version, name) VALUES ($1::integer, $2::text)", m.Version, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// enterSchema makes the schema the first of the search_path, for this transaction. Each step asks
// first: CREATE ... IF NOT EXISTS wants the privilege to create also when there is nothing to do.
func enterSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	found, err := exists(ctx, tx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", schema)
	if err != nil {
		return err
	}
	name := pgx.Identifier{schema}.Sanitize()
	if !found {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, "SET LOCAL search_path = "+name)
	return err
}

func appliedMigrations(ctx context.Context, tx pgx.Tx) ([]int, error) {
	var schema string
	if err := tx.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&schema); err != nil {
		return nil, err
	}
	if schema == "" {
		return nil, fmt.Errorf("%w: the search_path names no schema that exists: use WithSchema", fence.ErrInvalid)
	}
	table := pgx.Identifier{schema, "fence_migrations"}.Sanitize()
	found, err := exists(ctx, tx, "SELECT pg_catalog.to_regclass($1::text) IS NOT NULL", table)
	if err != nil {
		return nil, err
	}
	if !found {
		_, err := tx.Exec(ctx, `CREATE TABLE fence_migrations (
			version integer PRIMARY KEY,
			name    text NOT NULL,
			applied timestamptz NOT NULL DEFAULT now()
		)`)
		return nil, err
	}
	rows, err := tx.Query(ctx, "SELECT version FROM "+table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

func exists(ctx context.Context, tx pgx.Tx, sql, arg string) (found bool, err error) {
	err = tx.QueryRow(ctx, sql, arg).Scan(&found)
	return found, err
}
