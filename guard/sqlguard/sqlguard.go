package sqlguard

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// Guard keeps marks in the table fence_marks of a database. Make one with [New]. It is safe for
// concurrent use.
type Guard struct {
	db *sql.DB
	settings
	dialect dialect
	open    sync.Map // *sql.Tx → *session, of transactions that run
	fitting sync.Map // Table → struct{}, of tables that have been looked at
}

var _ guard.Doer = (*Guard)(nil)

// New returns a guard on db. Nothing is sent yet. The error wraps [fence.ErrInvalid] and names what is
// wrong: a nil db, an unknown dialect, or an option and its value.
func New(db *sql.DB, d Dialect, opts ...Option) (*Guard, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: sqlguard: db is nil", fence.ErrInvalid)
	}
	dialect, err := d.dialect()
	if err != nil {
		return nil, err
	}
	g := &Guard{db: db, dialect: dialect}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("%w: sqlguard: an option is nil", fence.ErrInvalid)
		}
		if err := o(&g.settings); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Option changes a default of [New] or [Migrate].
type Option func(*settings) error

type settings struct {
	busyTimeout *time.Duration // whole milliseconds; nil: the default
}

const defaultBusyTimeout = 5 * time.Second

// WithBusyTimeout bounds the wait for SQLite's write lock, and a COMMIT's wait for readers. Default:
// what the connection has been given (PRAGMA busy_timeout, in the DSN for instance), and 5 s where that
// is nothing. Rounded up to whole milliseconds; 0: don't wait; at most 24 days.
//
// The connection's own setting is put back after each call - but not by [Guard.AdmitTx], whose
// transaction is the caller's and may have to wait at its COMMIT.
func WithBusyTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 || d.Milliseconds() >= math.MaxInt32 {
			return fmt.Errorf("%w: sqlguard: WithBusyTimeout(%v): want 0 to 24 days", fence.ErrInvalid, d)
		}
		rounded := (d + time.Millisecond - 1).Truncate(time.Millisecond)
		s.busyTimeout = &rounded
		return nil
	}
}

// Admit admits c in a transaction of its own. Use it to seal a lease, or to refuse late callers before
// any work is done; a write that comes after it must be guarded itself. With a context of [Guard.Do]
// it is part of that transaction.
//
// Errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable]: nothing was changed;
// [fence.ErrOutcomeUnknown]: c may have been admitted, asking again tells.
func (g *Guard) Admit(ctx context.Context, c fence.Claim) error {
	return g.run(ctx, operation{"admit", c}, g.admits(c), nil)
}

// Do is [Guard.InTx] for callers that know no database/sql: the context that fn is given carries the
// transaction, [TxFrom] gets it out, and the guard's methods that are called with it take part in it -
// nested calls of Do and InTx as savepoints. That context is good for one call at a time, and only
// until fn returns.
//
// A refusal of any of those calls is final: the transaction is rolled back and the refusal returned,
// also if fn ignores it.
func (g *Guard) Do(ctx context.Context, c fence.Claim, fn func(ctx context.Context) error) error {
	if fn == nil {
		return fmt.Errorf("%w: sqlguard: Do: fn is nil", fence.ErrInvalid)
	}
	return g.run(ctx, operation{"transaction of", c}, g.admits(c), func(ctx context.Context, _ *sql.Tx) error { return fn(ctx) })
}

// InTx runs fn in a transaction to which c has been admitted, and commits it. Read everything that
// fn's writes are based on in fn.
//
// fn runs at most once, and not at all if c is refused. If fn returns an error or panics, everything is
// rolled back, the mark included; the error comes back through [errors.Is] and [errors.As], and the
// panic goes on. fn must not end the transaction itself, and must give its writing statements no context
// that ends before ctx: interrupting one makes SQLite roll back, see the package comment.
//
// Other errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable]: nothing was
// committed; [fence.ErrOutcomeUnknown]: the COMMIT's answer doesn't tell, or the transaction was gone
// by then. If ctx ends before the COMMIT, the transaction is rolled back, even if fn goes on.
func (g *Guard) InTx(ctx context.Context, c fence.Claim, fn func(tx *sql.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("%w: sqlguard: InTx: fn is nil", fence.ErrInvalid)
	}
	return g.run(ctx, operation{"transaction of", c}, g.admits(c), func(_ context.Context, tx *sql.Tx) error { return fn(tx) })
}

// AdmitTx admits c to the caller's own transaction. Call it before the transaction reads or writes
// anything: a SQLite transaction that has read can't always become a writer, which is
// [fence.ErrUnavailable]. The mark is raised if the transaction commits.
//
// A refusal rolls the transaction back, so that nothing can be written under c by mistake: what follows
// in it is [sql.ErrTxDone]. After another error the transaction is still the caller's to end.
//
// Errors: a *[fence.RejectedError]; [fence.ErrInvalid]; [fence.ErrUnavailable].
func (g *Guard) AdmitTx(ctx context.Context, tx *sql.Tx, c fence.Claim) error {
	o := operation{"admit", c}
	if tx == nil {
		return fmt.Errorf("%w: sqlguard: AdmitTx: tx is nil", fence.ErrInvalid)
	}
	if err := o.ready(ctx); err != nil {
		return err
	}
	s := g.sessionOf(tx)
	if s == nil { // what settle sets is left: the COMMIT may have to wait too
		if _, err := g.dialect.settle(ctx, tx, g.settings); err != nil {
			return g.failed(ctx, o, err)
		}
	}
	err := g.admits(c)(ctx, tx)
	if isRefusal(err) {
		s.note(err)
		_ = tx.Rollback() // an error: it has ended already
		return err
	}
	return g.failed(ctx, o, err)
}

// admits is the step that begins every transaction of a claim.
func (g *Guard) admits(c fence.Claim) step {
	return func(ctx context.Context, tx *sql.Tx) error { return g.dialect.admit(ctx, tx, c) }
}
