package fence

import (
	"errors"
	"fmt"
)

// The verdicts of a guard. They are definitive: the same claim can never succeed, so a retry is
// pointless. They come inside a [RejectedError].
var (
	// ErrStale says that the token is below the mark; a newer holder has been admitted.
	ErrStale = errors.New("fence: stale")
	// ErrDuplicate says that the token equals the mark's, but another holder was admitted with it.
	ErrDuplicate = errors.New("fence: duplicate")
	// ErrReplayed says that the token equals the mark's and may write only once. Some write under this token
	// took effect - not necessarily this one.
	ErrReplayed = errors.New("fence: replayed")
)

// The caller's fault: nothing was checked, nothing was written.
var (
	// ErrNoClaim says that a write which needs a claim came without one.
	ErrNoClaim = errors.New("fence: no claim")
	// ErrInvalid says that an argument is out of range or malformed; the message names it and its value.
	ErrInvalid = errors.New("fence: invalid")
	// ErrForged says that the claim's signature is missing, wrong or expired.
	ErrForged = errors.New("fence: forged")
	// ErrNotFound says that the row that the claim protects does not exist.
	ErrNotFound = errors.New("fence: not found")
)

var (
	// ErrUnavailable says that the guard or store could not decide. Fail closed; a retry may help.
	ErrUnavailable = errors.New("fence: unavailable")
	// ErrOutcomeUnknown says that the write was sent and its answer lost. It may have taken effect.
	ErrOutcomeUnknown = errors.New("fence: outcome unknown")
)

// RejectedError is a guard's refusal of a claim. [errors.Is] finds its verdict, [errors.As] the
// details.
type RejectedError struct {
	Claim   Claim
	Mark    Token // the mark it was refused by; 0 if unknown
	Verdict error // ErrStale, ErrDuplicate or ErrReplayed
}

// Error names the verdict, the claim (its holder as a fingerprint) and the mark.
func (e *RejectedError) Error() string {
	if e.Mark == 0 {
		return fmt.Sprintf("%v: %v refused", e.Verdict, e.Claim)
	}
	return fmt.Sprintf("%v: %v refused, the mark is %v", e.Verdict, e.Claim, e.Mark)
}

// Unwrap returns the verdict.
func (e *RejectedError) Unwrap() error { return e.Verdict }
