package pgguard_test

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/guard/pgguard"
)

// counting counts what a guard asks of its DB.
type counting struct {
	pgguard.DB
	calls atomic.Int64
}

func (c *counting) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	c.calls.Add(1)
	return c.DB.BeginTx(ctx, o)
}

func (c *counting) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.calls.Add(1)
	return c.DB.Exec(ctx, sql, args...)
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.calls.Add(1)
	return c.DB.Query(ctx, sql, args...)
}

func (c *counting) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c.calls.Add(1)
	return c.DB.SendBatch(ctx, b)
}
