//go:build !pgxmock

package pgguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// sendBegin sends BEGIN, the hold timeout and the admission in one round trip. The transaction is to be
// rolled back when there is an error.
func (g *Guard) sendBegin(ctx context.Context, c fence.Claim) (pgx.Tx, error) {
	var b pgx.Batch
	b.BeginTx(g.tx)
	b.Queue(g.beginSQL, g.beginArgs(c)...)
	results := g.db.SendBatch(ctx, &b)
	tx := results.Tx()
	err := results.Close()
	if err == nil && tx == nil {
		err = fmt.Errorf("%w: SendBatch of the guard's db doesn't begin the transaction that Batch.BeginTx asks for", fence.ErrInvalid)
	}
	return tx, err
}
