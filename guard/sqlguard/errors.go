package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// operation is what a call is doing, for its errors.
type operation struct {
	name  string
	claim fence.Claim
}

func (o operation) String() string {
	if o.claim == (fence.Claim{}) {
		return o.name
	}
	return o.name + " " + o.claim.String()
}

// ready checks what can be checked before anything is sent.
func (o operation) ready(ctx context.Context) error {
	if err := o.claim.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return o.unavailable(ctx, err)
	}
	return nil
}

// unavailable is for what certainly had no effect. It matches the end of ctx, if ctx has ended.
func (o operation) unavailable(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", end, err)
	}
	return fmt.Errorf("sqlguard: %v: %w: %w", o, fence.ErrUnavailable, err)
}

// answer is what an error of the database says about the statement it answers.
type answer int

const (
	unclear   answer = iota // nothing: it may not come from the database at all
	refusing                // not done, and the same would not be done another time
	undecided               // not done now; the same may work later
	failing                 // something broke: not done, unless it was a COMMIT
)

// failed is for an error in a transaction that will not be committed: whatever happened, nothing took
// effect. Verdicts and faults of the caller are what they are.
func (g *Guard) failed(ctx context.Context, o operation, err error) error {
	if err == nil || isRefusal(err) {
		return err
	}
	answered := g.dialect.answer(err)
	switch {
	case errors.Is(err, fence.ErrInvalid), errors.Is(err, fence.ErrNotFound):
		return fmt.Errorf("sqlguard: %v: %w", o, err)
	case ctx.Err() != nil, answered == undecided, answered == failing, lostConnection(err):
		return o.unavailable(ctx, err)
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("sqlguard: %v: the transaction has ended: %w", o, err)
	default:
		return fmt.Errorf("sqlguard: %v: %w", o, err)
	}
}

// begun is for an error of BEGIN: what the database doesn't explain is of the connection.
func (g *Guard) begun(ctx context.Context, o operation, err error) error {
	if g.dialect.answer(err) == refusing {
		return fmt.Errorf("sqlguard: %v: %w", o, err)
	}
	return o.unavailable(ctx, err)
}

// committed says what became of a transaction by the answer to its COMMIT.
func (g *Guard) committed(o operation, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("sqlguard: %v: its function has ended the transaction: %w", o, err)
	case g.dialect.wasGone(err):
		return fmt.Errorf("sqlguard: %v: %w: %w: %w", o, fence.ErrOutcomeUnknown, errGone, err)
	}
	switch g.dialect.answer(err) {
	case undecided:
		return fmt.Errorf("sqlguard: %v: not committed: %w: %w", o, fence.ErrUnavailable, err)
	case refusing: // a deferred constraint
		return fmt.Errorf("sqlguard: %v: not committed: %w", o, err)
	default:
		return fmt.Errorf("sqlguard: %v: %w: %w", o, fence.ErrOutcomeUnknown, err)
	}
}

func lostConnection(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

func isRefusal(err error) bool {
	var rejected *fence.RejectedError
	return errors.As(err, &rejected)
}
