package pgguard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ringfence/ringfence/fence"
)

// autocommit sends a statement that commits by itself. It is sent again when the server answers that it
// had no effect; when the answer is lost, it is not. The last of args must be a fence.Token.
func (g *Guard) autocommit(ctx context.Context, o operation, sql string, args []any) (pgconn.CommandTag, error) {
	for try := 1; ; try++ {
		s := &statement{args: args}
		tag, err := g.db.Exec(ctx, sql, s)
		if err == nil {
			return tag, nil
		}
		if try == maxTries || !hadNoEffect(err) {
			return tag, s.committed(ctx, o, err)
		}
	}
}

// within sends a statement in a transaction.
func within(ctx context.Context, o operation, tx pgx.Tx, sql string, args []any) (pgconn.CommandTag, error) {
	s := &statement{args: args}
	tag, err := tx.Exec(ctx, sql, s)
	if err == nil {
		return tag, nil
	}
	if invalid := s.unencodable(o, err); invalid != nil {
		return tag, invalid
	}
	return tag, o.uncommitted(ctx, err)
}

// statement is the arguments of one, and how far it has come: an error of Exec doesn't tell whether
// anything was sent. A pool that has no connection free until ctx ends returns ctx's error, and so does
// a statement that is under way then.
type statement struct {
	args    []any
	reached bool // a connection was found for it
	encoded bool // all of it was encoded: the next step is to send it
}

var _ pgx.QueryRewriter = (*statement)(nil)

// RewriteQuery is called by pgx on the connection it has chosen.
func (s *statement) RewriteQuery(_ context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	s.reached = true
	args := slices.Clone(s.args)
	last := len(args) - 1
	token := args[last].(fence.Token)
	if conn == nil { // a mock, which encodes nothing
		s.encoded = true
		args[last] = int64(token)
	} else {
		args[last] = lastArgument{s, token}
	}
	return sql, args, nil
}

// lastArgument is a token that notes when it is encoded. pgx encodes the arguments in their order, and
// has prepared the statement before.
type lastArgument struct {
	of    *statement
	token fence.Token
}

var (
	_ pgtype.Int64Valuer = lastArgument{} // asked for when the type of the parameter is known
	_ driver.Valuer      = lastArgument{} // asked for otherwise
)

// Int64Value returns the token.
func (a lastArgument) Int64Value() (pgtype.Int8, error) {
	a.of.encoded = true
	return pgtype.Int8{Int64: int64(a.token), Valid: true}, nil
}

// Value returns the token.
func (a lastArgument) Value() (driver.Value, error) {
	a.of.encoded = true
	return int64(a.token), nil
}

// committed is for an error of a statement that commits by itself.
func (s *statement) committed(ctx context.Context, o operation, err error) error {
	if invalid := s.unencodable(o, err); invalid != nil {
		return invalid
	}
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && (definitive(pgErr) || !s.encoded):
		return o.answered(pgErr, err)
	case !s.encoded || pgconn.SafeToRetry(err):
		return o.unavailable(ctx, err)
	default:
		return o.unknown(ctx, err)
	}
}

// unencodable returns an error if one of the arguments was what kept the statement from being sent.
func (s *statement) unencodable(o operation, err error) error {
	var pgErr *pgconn.PgError
	if !s.reached || s.encoded || errors.As(err, &pgErr) || broken(err) {
		return nil
	}
	return fmt.Errorf("%w: pgguard: %v: a value can't be sent to its column: %w", fence.ErrInvalid, o, err)
}
