package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

var (
	// ErrHeld says that another holder has the resource. It comes inside a [HeldError].
	ErrHeld = errors.New("lock: held")
	// ErrLost says that the lease was over before it was released: it expired, or was ended by somebody.
	ErrLost = driver.ErrLost
	// ErrReleased says that the lease was released before.
	ErrReleased = errors.New("lock: released")
	// ErrClosed says that the Locker was closed.
	ErrClosed = errors.New("lock: closed")
	// ErrExhausted says that the resource has no larger token left: they end at 9223372036854775807.
	ErrExhausted = driver.ErrExhausted
	// ErrUnavailable says that the store could not decide, or its answer was lost. It wraps
	// [fence.ErrUnavailable].
	ErrUnavailable = fmt.Errorf("lock: %w", fence.ErrUnavailable)
)

// HeldError says which resource another holder has. It wraps [ErrHeld].
type HeldError struct {
	Resource   string
	RetryAfter time.Duration // what is left of the other's lease, by the store's clock; 0: unknown
}

// Error names the resource and the time, if that is known.
func (e *HeldError) Error() string {
	if e.RetryAfter <= 0 {
		return fmt.Sprintf("%v: %q", ErrHeld, e.Resource)
	}
	return fmt.Sprintf("%v: %q, for another %v", ErrHeld, e.Resource, e.RetryAfter)
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// ReleaseError comes from [Locker.Do] when fn succeeded and the release did not. If it wraps
// [ErrLost], another holder may have been in while fn ran.
type ReleaseError struct {
	Resource string
	Err      error
}

// Error names the resource and the cause.
func (e *ReleaseError) Error() string {
	return fmt.Sprintf("lock: fn succeeded, but the release of %q failed: %v", e.Resource, e.Err)
}

// Unwrap returns the cause.
func (e *ReleaseError) Unwrap() error { return e.Err }

// releasedError wraps [ErrReleased].
type releasedError struct{ resource string }

func (e *releasedError) Error() string { return fmt.Sprintf("%v: %q", ErrReleased, e.resource) }
func (e *releasedError) Unwrap() error { return ErrReleased }

// causeError is the cause of a lease's ended context: the lease's error, and a cancellation.
type causeError struct{ err error }

func (e *causeError) Error() string   { return e.err.Error() }
func (e *causeError) Unwrap() []error { return []error{e.err, context.Canceled} }
