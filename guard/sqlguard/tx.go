package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// step is a part of a transaction. The context carries the transaction.
type step func(ctx context.Context, tx *sql.Tx) error

// run runs admit and then fn (if there is one) in a transaction, or as a savepoint in the one that ctx
// carries.
func (g *Guard) run(ctx context.Context, o operation, admit, fn step) error {
	if err := o.ready(ctx); err != nil {
		return err
	}
	if s := g.joined(ctx); s != nil {
		return g.nest(ctx, o, s, admit, fn)
	}
	return g.withConn(ctx, o, func(conn *sql.Conn) error { return g.transact(ctx, o, conn, admit, fn) })
}

// withConn runs f with a connection that waits for locks as it should.
func (g *Guard) withConn(ctx context.Context, o operation, f func(conn *sql.Conn) error) error {
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return o.unavailable(ctx, err)
	}
	defer func() { _ = conn.Close() }() // back to the pool; it waits for a rollback that is under way
	restore, err := g.dialect.settle(ctx, conn, g.settings)
	if err != nil {
		return g.failed(ctx, o, err)
	}
	defer restore()
	return f(conn)
}

// transact begins and ends the transaction. Until the COMMIT is sent, the end of ctx rolls back, also
// under a function that doesn't look at it; after that it has no bearing: a COMMIT that is cut off
// would leave open what became of it.
func (g *Guard) transact(ctx context.Context, o operation, conn *sql.Conn, admit, fn step) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()

	tx, err := conn.BeginTx(life, nil)
	if err != nil {
		return g.begun(ctx, o, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	s := &session{db: g.db, tx: tx, outer: newest(ctx)}
	g.open.Store(tx, s)
	defer g.open.Delete(tx)

	if err := admit(ctx, tx); err != nil {
		return g.failed(ctx, o, err)
	}
	if fn != nil {
		if err := fn(context.WithValue(ctx, sessionKey{}, s), tx); err != nil {
			return err
		}
	}
	if err := s.failure(); err != nil {
		return err
	}
	if !stop() {
		return o.unavailable(ctx, ctx.Err())
	}
	return g.committed(o, tx.Commit())
}

// errGone is a transaction that the database has rolled back under its function.
var errGone = errors.New("the database has rolled the transaction back while its function went on: " +
	"what was written before is gone, what was written after stands")

const (
	savepoint  = "SAVEPOINT fence_guard"
	release    = "RELEASE SAVEPOINT fence_guard"
	rollbackTo = "ROLLBACK TO SAVEPOINT fence_guard"
)

// nest runs admit and fn as a savepoint of s. A refusal is kept: s must not be committed.
func (g *Guard) nest(ctx context.Context, o operation, s *session, admit, fn step) error {
	if g.dialect.gone(ctx, s.tx) {
		err := fmt.Errorf("sqlguard: %v: %w: %w", o, fence.ErrOutcomeUnknown, errGone)
		s.fail(err)
		return err
	}
	if _, err := s.tx.ExecContext(ctx, savepoint); err != nil {
		return g.failed(ctx, o, err)
	}
	released := false
	defer func() {
		if !released {
			s.undo(ctx)
		}
	}()
	if err := admit(ctx, s.tx); err != nil {
		s.note(err)
		return g.failed(ctx, o, err)
	}
	if fn != nil {
		if err := fn(ctx, s.tx); err != nil {
			return err
		}
	}
	if _, err := s.tx.ExecContext(ctx, release); err != nil {
		return g.failed(ctx, o, err)
	}
	released = true
	return nil
}
