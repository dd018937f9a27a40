package pgguard

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// TxFrom returns the transaction that [Guard.Do] gave to its function with ctx.
func TxFrom(ctx context.Context) (pgx.Tx, bool) {
	j := newest(ctx)
	if j == nil {
		return nil, false
	}
	return j.tx, true
}

func newest(ctx context.Context) *joined {
	j, _ := ctx.Value(joinedKey{}).(*joined)
	return j
}

type joinedKey struct{}

// joined is the transaction that a context carries.
type joined struct {
	guard   *Guard
	tx      pgx.Tx
	refusal *refusal // shared by a transaction and its savepoints
	outer   *joined  // what the context carried before
}

// joined returns the transaction of ctx that is one of g's database, the innermost: a call that didn't
// take part in it could wait for it for ever.
func (g *Guard) joined(ctx context.Context) *joined {
	j := newest(ctx)
	for j != nil && j.guard != g && !same(j.guard.db, g.db) {
		j = j.outer
	}
	return j
}

// same compares what need not be comparable.
func same(a, b any) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// noteIn is note for what happened in tx, if g has begun it: not in a savepoint of the caller's own.
func (g *Guard) noteIn(ctx context.Context, tx pgx.Tx, err error) error {
	if j := g.joined(ctx); j != nil && same(j.tx, tx) {
		return j.note(err)
	}
	if !reflect.ValueOf(tx).Comparable() {
		return err
	}
	known, _ := g.open.Load(tx)
	j, _ := known.(*joined)
	return j.note(err)
}

// note remembers a refusal and returns err.
func (j *joined) note(err error) error {
	var rejected *fence.RejectedError
	if j != nil && errors.As(err, &rejected) {
		j.refusal.store(err)
	}
	return err
}

// nest runs fn in a savepoint of outer, with the claim admitted there.
func (g *Guard) nest(ctx context.Context, o operation, outer *joined, fn work) error {
	savepoint, err := outer.tx.Begin(ctx)
	if err != nil {
		return o.uncommitted(ctx, err)
	}
	if err := outer.note(g.AdmitTx(ctx, savepoint, o.claim)); err != nil {
		rollback(ctx, savepoint)
		return err
	}
	j := &joined{guard: g, tx: savepoint, refusal: outer.refusal, outer: newest(ctx)}
	return j.run(ctx, fn, func() error {
		if err := savepoint.Commit(ctx); err != nil {
			return o.uncommitted(ctx, err)
		}
		return nil
	})
}

// refusal is the first refusal in a transaction.
type refusal struct {
	mu  sync.Mutex
	err error
}

func (r *refusal) store(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *refusal) load() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
