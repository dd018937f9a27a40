package sqlguard

import (
	"context"
	"database/sql"
)

// Migrate brings fence_marks up to date. What was applied is recorded in the table fence_migrations
// beside it. It may run in several processes at once and at every start of a program. All is done in
// one transaction, of which nothing remains if it fails. After any error it may be run again.
//
// Don't use it for a database that a migration tool takes care of, see package migrations.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) error {
	g, err := New(db, d, opts...)
	if err != nil {
		return err
	}
	o := operation{name: "migrate"}
	if err := ctx.Err(); err != nil {
		return o.unavailable(ctx, err)
	}
	return g.withConn(ctx, o, func(conn *sql.Conn) error {
		return g.failed(ctx, o, g.dialect.migrate(ctx, conn))
	})
}
