package pgguard

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// maxTries bounds how often something is sent again of which it is known that it had no effect.
const maxTries = 32

// rollbackLimit bounds a rollback, which is sent also when the caller's context has ended.
const rollbackLimit = 5 * time.Second

// InTx runs fn in a transaction to which c has been admitted, and commits it. BEGIN and the admission
// are one round trip. From then on no older claim can get in, and what fn reads is up to date: read
// everything that fn's writes are based on in fn.
//
// fn runs at most once, and not at all if c is refused. If fn returns an error or panics, everything is
// rolled back, the mark included; the error comes back through [errors.Is] and [errors.As] - joined
// with [fence.ErrUnavailable] if it is a serialization failure, a deadlock or a lost connection - and
// the panic goes on. fn must not end the transaction itself. An SQL error that fn ignores makes
// PostgreSQL roll back, which is an error too (pgx.ErrTxCommitRollback).
//
// Other errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable]: nothing was
// committed; [fence.ErrOutcomeUnknown]: the COMMIT was sent and its answer lost. It is not sent again;
// fn's effects are there, all of them, or not at all.
//
// ctx bounds every wait, that for the mark included. If it ends before the COMMIT is sent, there is
// none. With a context of [Guard.Do], InTx is a savepoint in that transaction.
func (g *Guard) InTx(ctx context.Context, c fence.Claim, fn func(tx pgx.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("%w: pgguard: InTx: fn is nil", fence.ErrInvalid)
	}
	return g.run(ctx, operation{name: "transaction of", claim: c}, func(_ context.Context, tx pgx.Tx) error { return fn(tx) })
}

// Do is [Guard.InTx] for callers that know no pgx: the context that fn is given carries the
// transaction, [TxFrom] gets it out, and the guard's methods that are called with it take part in it.
// That context is good for one call at a time, and only until fn returns.
//
// A refusal of any of those calls is final: the transaction is rolled back and the refusal returned,
// also if fn ignores it. A newer claim for c's own resource is admitted, and all is committed under it.
func (g *Guard) Do(ctx context.Context, c fence.Claim, fn func(ctx context.Context) error) error {
	if fn == nil {
		return fmt.Errorf("%w: pgguard: Do: fn is nil", fence.ErrInvalid)
	}
	return g.run(ctx, operation{name: "transaction of", claim: c}, func(ctx context.Context, _ pgx.Tx) error { return fn(ctx) })
}

type work func(ctx context.Context, tx pgx.Tx) error

func (g *Guard) run(ctx context.Context, o operation, fn work) error {
	if err := g.ready(ctx, o); err != nil {
		return err
	}
	if outer := g.joined(ctx); outer != nil {
		return g.nest(ctx, o, outer, fn)
	}
	if err := g.alone(o); err != nil {
		return err
	}
	tx, err := g.begin(ctx, o)
	if err != nil {
		return err
	}
	j := &joined{guard: g, tx: tx, refusal: new(refusal), outer: newest(ctx)}
	if reflect.ValueOf(tx).Comparable() {
		g.open.Store(tx, j)
		defer g.open.Delete(tx)
	}
	return j.run(ctx, fn, func() error {
		if err := j.refusal.load(); err != nil {
			rollback(ctx, tx)
			return err
		}
		if err := ctx.Err(); err != nil {
			rollback(ctx, tx)
			return o.unavailable(ctx, err)
		}
		gone := g.outside(tx)
		if err := o.commit(ctx, tx); err != nil || !gone {
			return err
		}
		return fmt.Errorf("pgguard: %v: %w: its function has ended the transaction by SQL: what came after was "+
			"committed by itself, unguarded", o, fence.ErrOutcomeUnknown)
	})
}

// outside reports whether the connection of tx has no transaction open: SQL has ended it. A db that
// isn't pgx's own may give transactions that have no connection.
func (g *Guard) outside(tx pgx.Tx) bool {
	switch g.db.(type) {
	case *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn:
		conn := tx.Conn()
		return !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
	default:
		return false
	}
}

// begin returns a transaction to which the claim has been admitted. At REPEATABLE READ and
// SERIALIZABLE a mark that changed during the wait for it is a 40001: the next transaction sees it as
// it is.
func (g *Guard) begin(ctx context.Context, o operation) (pgx.Tx, error) {
	for try := 1; ; try++ {
		tx, err := g.sendBegin(ctx, o.claim)
		if err == nil {
			return tx, nil
		}
		if tx != nil {
			rollback(ctx, tx)
		}
		if try == maxTries || !hadNoEffect(err) {
			return nil, g.explain(o.uncommitted(ctx, err))
		}
	}
}

// run runs fn, and end if it succeeds. Otherwise, also if fn panics or ends the goroutine, it rolls
// back.
func (j *joined) run(ctx context.Context, fn work, end func() error) error {
	ended := false
	defer func() {
		if !ended {
			rollback(ctx, j.tx)
		}
	}()
	if err := fn(context.WithValue(ctx, joinedKey{}, j), j.tx); err != nil {
		return ofFunction(err)
	}
	ended = true
	return end()
}

// rollback waits for the server to confirm, so that the resource is free when the caller goes on. An
// error is no news: pgx then closes the connection, which rolls back as well.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_ = tx.Rollback(ctx)
}
