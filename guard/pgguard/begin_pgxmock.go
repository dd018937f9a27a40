//go:build pgxmock

package pgguard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// sendBegin is the same for pgx 5.10, the newest that pgxmock compiles with: it has no Batch.BeginTx.
func (g *Guard) sendBegin(ctx context.Context, c fence.Claim) (pgx.Tx, error) {
	tx, err := g.db.BeginTx(ctx, g.tx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, g.beginSQL, g.beginArgs(c)...)
	return tx, err
}
