package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/lock"
)

// postgresRows keeps the rows in a schema of its own of a PostgreSQL database, guarded by package
// pgguard.
type postgresRows struct {
	pool   *pgxpool.Pool
	schema string
	name   string // of the table, as SQL
	table  *pgguard.TableGuard
}

func openPostgres(ctx context.Context, address, schema, prefix string) (*postgresRows, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 2 // a processor does one thing at a time
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	guard, err := pgguard.New(pool, pgguard.WithSchema(schema))
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresRows{pool, schema, pgx.Identifier{schema, "auctions"}.Sanitize(), guard.Table(pgguard.Table{
		Name: schema + ".auctions", Key: "id", Resource: prefix, Fence: "fence", Holder: "fence_holder",
	})}, nil
}

func (r *postgresRows) Seal() lock.Sealer { return r.table }

func (r *postgresRows) Read(ctx context.Context, auction string) (s standing, err error) {
	err = r.pool.QueryRow(ctx, `SELECT bidder, amount, token FROM `+r.name+` WHERE id = $1`, auction).
		Scan(&s.Bidder, &s.Amount, (*int64)(&s.Token))
	return s, err
}

func (r *postgresRows) Write(ctx context.Context, c fence.Claim, b bid) error {
	return r.table.Update(ctx, c, b.Auction, pgguard.Set{"bidder": b.Bidder, "amount": b.Amount, "token": int64(c.Token)})
}

func (r *postgresRows) Overwrite(ctx context.Context, c fence.Claim, b bid) error {
	_, err := r.pool.Exec(ctx, `UPDATE `+r.name+` SET bidder = $1, amount = $2, token = $3 WHERE id = $4`,
		b.Bidder, b.Amount, int64(c.Token), b.Auction)
	return err
}

// Create also applies the migrations: the rows carry their marks themselves, but the schema is then
// complete for whoever adds an InTx to this program.
func (r *postgresRows) Create(ctx context.Context, auctions []string) error {
	if err := pgguard.Migrate(ctx, r.pool, pgguard.WithSchema(r.schema)); err != nil {
		return err
	}
	if _, err := r.pool.Exec(ctx, `CREATE TABLE `+r.name+` (
		id           text PRIMARY KEY,
		bidder       text NOT NULL DEFAULT '',
		amount       bigint NOT NULL DEFAULT 0,
		token        bigint NOT NULL DEFAULT 0,
		fence        bigint,
		fence_holder uuid
	)`); err != nil {
		return err
	}
	_, err := r.pool.Exec(ctx, `INSERT INTO `+r.name+` (id) SELECT unnest($1::text[])`, auctions)
	return err
}

func (r *postgresRows) All(ctx context.Context) (map[string]standing, error) {
	found, err := r.pool.Query(ctx, `SELECT id, bidder, amount, token FROM `+r.name)
	if err != nil {
		return nil, err
	}
	all := map[string]standing{}
	var id string
	var s standing
	_, err = pgx.ForEachRow(found, []any{&id, &s.Bidder, &s.Amount, (*int64)(&s.Token)}, func() error {
		all[id] = s
		return nil
	})
	return all, err
}

func (r *postgresRows) Drop(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{r.schema}.Sanitize()+` CASCADE`)
	return err
}

func (r *postgresRows) Close() { r.pool.Close() }
