package sqlguard

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// Dialect names a kind of database: what differs between them is the guard's concern, not the
// caller's.
type Dialect string

// SQLite is SQLite 3.35 or later.
const SQLite Dialect = "sqlite"

func (d Dialect) dialect() (dialect, error) {
	if d == SQLite {
		return sqlite{}, nil
	}
	return nil, fmt.Errorf("%w: sqlguard: dialect %q: want sqlguard.SQLite", fence.ErrInvalid, string(d))
}

// dialect is all that depends on the kind of database. Methods return the driver's errors as they are.
type dialect interface {
	// settle makes a connection wait for locks as the settings say. restore takes that back; it works
	// also when ctx has ended.
	settle(ctx context.Context, on querier, s settings) (restore func(), err error)

	// admit checks c against the mark in fence_marks and raises it: a *fence.RejectedError if c is
	// refused. It is the first thing in its transaction, and keeps other writers of the mark out until
	// the transaction ends.
	admit(ctx context.Context, in querier, c fence.Claim) error

	// fits checks that the table has what a TableGuard needs: fence.ErrInvalid if not.
	fits(ctx context.Context, on querier, t Table) error
	// write checks c against the mark in the row and writes it: a *fence.RejectedError if c is refused,
	// fence.ErrNotFound if there is no row to update, fence.ErrInvalid for a key that is not the row's
	// own spelling. It is the first thing in its transaction; after an error that is rolled back.
	write(ctx context.Context, in querier, t Table, w write) error

	// migrate applies what is missing of the source, in one transaction.
	migrate(ctx context.Context, conn *sql.Conn) error

	// gone reports whether a transaction that was begun is there no more, though nobody has ended it.
	gone(ctx context.Context, in querier) bool
	// wasGone reports whether that is what a COMMIT met.
	wasGone(err error) bool

	// answer says what an error means.
	answer(err error) answer
}

// querier is a connection or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
