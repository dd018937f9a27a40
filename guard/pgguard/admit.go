package pgguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Admit admits c in a transaction of its own: one statement, one round trip. Use it to seal a lease,
// or to refuse late callers before any work is done; a write that comes after it must be guarded itself.
//
// With a context of [Guard.Do] it is part of that transaction, as [Guard.AdmitTx] is, and a refusal
// keeps the transaction from being committed.
//
// Errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable];
// [fence.ErrOutcomeUnknown] if the answer was lost: c may have been admitted, and asking again tells.
func (g *Guard) Admit(ctx context.Context, c fence.Claim) error {
	o := operation{name: "admit", claim: c}
	if err := g.ready(ctx, o); err != nil {
		return err
	}
	if j := g.joined(ctx); j != nil {
		return g.AdmitTx(ctx, j.tx, c)
	}
	if err := g.alone(o); err != nil {
		return err
	}
	_, err := g.autocommit(ctx, o, g.aloneSQL, aloneArgs(c))
	return g.explain(err)
}

// AdmitTx admits c to the caller's own transaction. Call it before the transaction reads what its
// writes are based on. The mark is locked until the transaction ends, and raised if it commits.
//
// A refusal is an SQL error: PostgreSQL accepts nothing more in the transaction but its rollback, so
// nothing can be written under c by mistake - unless the caller goes back to a savepoint of its own
// from before the call.
//
// Errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable], also for a
// serialization failure or a deadlock (40001, 40P01; the *pgconn.PgError is in the chain): roll back and
// run the transaction again. At REPEATABLE READ and SERIALIZABLE a stale claim may be told so only
// then.
func (g *Guard) AdmitTx(ctx context.Context, tx pgx.Tx, c fence.Claim) error {
	o := operation{name: "admit", claim: c}
	if isNil(tx) {
		return fmt.Errorf("%w: pgguard: AdmitTx: tx is nil", fence.ErrInvalid)
	}
	if err := g.ready(ctx, o); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, g.admitSQL, admitArgs(c)...); err != nil {
		return g.noteIn(ctx, tx, g.explain(o.uncommitted(ctx, err)))
	}
	return nil
}
