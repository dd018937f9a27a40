package guard

import (
	"context"

	"github.com/ringfence/ringfence/fence"
)

// Guard keeps marks. Implementations are safe for concurrent use.
type Guard interface {
	// Admit checks c against the mark of its resource and raises the mark to c, atomically. It returns
	// nil once c is admitted, a *[fence.RejectedError] if c is refused, an error that wraps
	// [fence.ErrInvalid] if c is malformed, [fence.ErrNotFound] if the guard keeps its marks in rows
	// and there is none, [fence.ErrUnavailable] if it could not decide, or [fence.ErrOutcomeUnknown]
	// if the answer was lost. A refused claim changes nothing.
	Admit(ctx context.Context, c fence.Claim) error
}

// Doer is a guard that can run a function inside its critical section.
type Doer interface {
	Guard
	// Do runs fn so that the check and fn's effects are one atomic step. fn runs at most once, and not
	// at all when c is refused (the errors are those of Admit). An error of fn comes back through
	// [errors.Is] and [errors.As]; a panic of fn rolls back and goes on.
	//
	// In a transactional guard a failed fn leaves the mark where it was; others keep it raised, which
	// is the safe side. The implementation says which it is.
	Do(ctx context.Context, c fence.Claim, fn func(ctx context.Context) error) error
}
