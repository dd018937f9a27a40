package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// sqlite is the dialect of SQLite.
//
// A transaction begins with a plain BEGIN, for that is what database/sql can do. It takes no lock. The
// first statement is a write, so it takes the write lock, waits for it as long as busy_timeout says,
// and sees what was committed before: BEGIN IMMEDIATE by other means, in every journal mode. (A
// transaction that reads first gets SQLITE_BUSY at once, or SQLITE_BUSY_SNAPSHOT in WAL mode.)
type sqlite struct{}

// settle sets busy_timeout. It takes no lock and is no part of a transaction.
func (sqlite) settle(ctx context.Context, on querier, s settings) (restore func(), err error) {
	var has int64 // in milliseconds
	if err := on.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&has); err != nil {
		return nil, err
	}
	want := has
	switch {
	case s.busyTimeout != nil:
		want = s.busyTimeout.Milliseconds()
	case has == 0:
		want = defaultBusyTimeout.Milliseconds()
	}
	if want == has {
		return func() {}, nil
	}
	set := func(ctx context.Context, ms int64) error {
		_, err := on.ExecContext(ctx, "PRAGMA busy_timeout = "+strconv.FormatInt(ms, 10))
		return err
	}
	if err := set(ctx, want); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = set(ctx, has) // an error: the connection is broken, or the transaction has ended
	}, nil
}

// A holder that is NULL equals nothing, so that a claim or mark without one follows the once rule.
const admitSQL = `
INSERT INTO fence_marks (resource, token, holder) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token, holder = excluded.holder
WHERE fence_marks.token < excluded.token OR (fence_marks.token = excluded.token AND fence_marks.holder = excluded.holder)`

func (d sqlite) admit(ctx context.Context, in querier, c fence.Claim) error {
	result, err := in.ExecContext(ctx, admitSQL, c.Resource, int64(c.Token), holderText(c.Holder))
	if err != nil {
		if d.answer(err) == refusing {
			return fmt.Errorf("%w: is fence_marks as it should be: has sqlguard.Migrate (or the SQL of package migrations) been run for this database?", err)
		}
		return err
	}
	n, err := result.RowsAffected()
	if err != nil || n > 0 {
		return err
	}
	row := in.QueryRowContext(ctx, "SELECT token, holder FROM fence_marks WHERE resource = ?", c.Resource)
	return whyNot(row, c)
}

// errBlocked is what remains when no row was written although the mark admits the claim.
var errBlocked = errors.New("the mark admits the claim, but nothing was written: a trigger keeps the write from it")

// whyNot reads a mark that has refused c and names the reason; sql.ErrNoRows if there is none.
func whyNot(row *sql.Row, c fence.Claim) error {
	var token sql.NullInt64
	var holder sql.NullString
	if err := row.Scan(&token, &holder); err != nil {
		return err
	}
	mark := guard.Mark{Token: fence.Token(token.Int64)}
	if holder.Valid {
		id, err := uuid.Parse(holder.String)
		if err != nil {
			return errors.New("the holder in the mark is not a UUID") // uuid's own error would show it
		}
		mark.Holder = id
	}
	if err := mark.Judge(c); err != nil {
		return err
	}
	return errBlocked
}

// gone asks by a BEGIN, which a transaction refuses without being touched. SQLite rolls back by itself
// when a writing statement is interrupted or fails badly; what comes next commits by itself.
func (sqlite) gone(ctx context.Context, in querier) bool {
	if _, err := in.ExecContext(ctx, "BEGIN"); err != nil {
		return false
	}
	_, _ = in.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // an error: the connection is broken
	return true
}

func (sqlite) wasGone(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no transaction is active")
}

// holderText is a holder as a parameter: its 36 characters, or NULL.
func holderText(holder uuid.UUID) any {
	if holder == uuid.Nil {
		return nil
	}
	return holder.String()
}
