package pgguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
)

// unavailable is for what certainly had no effect.
func (o operation) unavailable(ctx context.Context, err error) error {
	return fmt.Errorf("pgguard: %v: %w: %w", o, fence.ErrUnavailable, withEnd(ctx, err))
}

// unknown is for what may have taken effect.
func (o operation) unknown(ctx context.Context, err error) error {
	return fmt.Errorf("pgguard: %v: %w: %w", o, fence.ErrOutcomeUnknown, withEnd(ctx, err))
}

// withEnd adds why ctx ended, if it did and err doesn't tell: pgx may only say that the connection was
// closed.
func withEnd(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// answered is for an error that the server sent, when it means that nothing was done.
func (o operation) answered(pgErr *pgconn.PgError, err error) error {
	if rejected := refused(pgErr, o.claim); rejected != nil {
		return rejected
	}
	switch {
	case pgErr.Code == "22P02" && strings.Contains(pgErr.Message, otherKey):
		return fmt.Errorf("%w: pgguard: %v: nothing was written: the claim is for another key than the row's: %w", fence.ErrInvalid, o, err)
	case badArgument(pgErr):
		return fmt.Errorf("%w: pgguard: %v: %w", fence.ErrInvalid, o, err)
	case undecidedState(pgErr.Code):
		return fmt.Errorf("pgguard: %v: %w: %w", o, fence.ErrUnavailable, err)
	default:
		return fmt.Errorf("pgguard: %v: %w", o, err)
	}
}

// uncommitted is for an error of a statement in a transaction that is not committed: whatever
// happened, nothing took effect.
func (o operation) uncommitted(ctx context.Context, err error) error {
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr):
		return o.answered(pgErr, err)
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("pgguard: %v: the transaction has ended: %w", o, err)
	case errors.Is(err, fence.ErrInvalid):
		return fmt.Errorf("pgguard: %v: %w", o, err)
	default:
		return o.unavailable(ctx, err)
	}
}

// commit commits and says what became of it.
func (o operation) commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pgErr) && definitive(pgErr):
		return o.answered(pgErr, err)
	case pgErr != nil:
		return o.unknown(ctx, err)
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("pgguard: %v: rolled back, an SQL error in it was ignored: %w", o, err)
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("pgguard: %v: its function has ended the transaction: %w", o, err)
	case pgconn.SafeToRetry(err) && err.Error() == "conn busy":
		return fmt.Errorf("pgguard: %v: not committed, its function has left rows or a batch open: %w", o, err)
	case pgconn.SafeToRetry(err):
		return o.unavailable(ctx, err)
	default:
		return o.unknown(ctx, err)
	}
}

// ofFunction returns the error of a function whose transaction was rolled back. What says that the same
// may work another time is marked so, as it would be if the guard had met it.
func ofFunction(err error) error {
	for _, told := range []error{fence.ErrUnavailable, fence.ErrOutcomeUnknown, fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed} {
		if errors.Is(err, told) {
			return err
		}
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		if !undecidedState(pgErr.Code) {
			return err
		}
	} else if !pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", fence.ErrUnavailable, err)
}

// explain adds the remedy to an error of fence_admit that says that it isn't there.
func (g *Guard) explain(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	switch pgErr.Code {
	case "42P01", "42883", "3F000": // no such table, function, schema
		return fmt.Errorf("%w: has pgguard.Migrate (or the SQL of package migrations) been run for %s, and is WithSchema right?",
			err, g.place())
	default:
		return err
	}
}

func (g *Guard) place() string {
	if g.schema == "" {
		return "the search_path of this connection"
	}
	return fmt.Sprintf("the schema %q", g.schema)
}

// broken reports whether err is of the connection rather than of what was to be sent on it.
func broken(err error) bool {
	var netErr net.Error
	var connectErr *pgconn.ConnectError
	return errors.As(err, &netErr) || errors.As(err, &connectErr) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
