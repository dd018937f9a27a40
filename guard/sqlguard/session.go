package sqlguard

import (
	"context"
	"database/sql"
	"sync"
)

// TxFrom returns the transaction that [Guard.Do] gave to its function with ctx.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	s := newest(ctx)
	if s == nil {
		return nil, false
	}
	return s.tx, true
}

type sessionKey struct{}

// session is a transaction that a guard has begun.
type session struct {
	db    *sql.DB
	tx    *sql.Tx
	outer *session // of another database, that this one began within

	mu     sync.Mutex
	failed error // why it must not be committed: the first refusal in it, or that it is gone
}

// joined returns the session of ctx if it is one of g's database: a call that didn't take part in it
// would wait for it.
func (g *Guard) joined(ctx context.Context) *session {
	s := newest(ctx)
	for s != nil && s.db != g.db {
		s = s.outer
	}
	return s
}

func newest(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// sessionOf returns the session that tx is of, nil if g has not begun it.
func (g *Guard) sessionOf(tx *sql.Tx) *session {
	s, _ := g.open.Load(tx)
	known, _ := s.(*session)
	return known
}

// note remembers a refusal. It may be called on nil.
func (s *session) note(err error) {
	if s == nil || !isRefusal(err) {
		return
	}
	s.fail(err)
}

// fail keeps the session from being committed.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// undo takes the savepoint back, also when ctx has ended. What can't be taken back must not be
// committed.
func (s *session) undo(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, statement := range []string{rollbackTo, release} {
		if _, err := s.tx.ExecContext(ctx, statement); err != nil {
			_ = s.tx.Rollback() // an error: it has ended already
			return
		}
	}
}
