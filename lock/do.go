package lock

import (
	"context"
	"errors"
)

// Do acquires the resource as [Locker.Acquire] does, runs fn and releases the lease, also when fn
// panics. fn's ctx carries the claim and ends with ctx and with the lease.
//
// Its error is one of three: that of Acquire, and fn never ran; fn's own, joined with the lease's
// [ErrLost] if the lease ended under it; or a [ReleaseError]: fn returned nil, and the lease was lost
// before the release, or the release failed. fn may release the lease itself.
func (l *Locker) Do(ctx context.Context, resource string, fn func(ctx context.Context, lease *Lease) error, opts ...Option) (err error) {
	lease, err := l.Acquire(ctx, resource, opts...)
	if err != nil {
		return err
	}
	bound, done := lease.Bind(ctx)
	defer done()
	var fnErr error
	defer func() {
		lost := lease.Err()
		released := lease.Release(ctx)
		if errors.Is(released, ErrLost) {
			lost = released
		}
		switch {
		case fnErr != nil && errors.Is(lost, ErrLost):
			err = errors.Join(fnErr, lost)
		case fnErr != nil:
			err = fnErr
		case errors.Is(lost, ErrLost):
			err = &ReleaseError{Resource: resource, Err: lost}
		case released == nil, errors.Is(released, ErrReleased) && !errors.Is(released, ErrClosed):
			err = nil
		default:
			err = &ReleaseError{Resource: resource, Err: released}
		}
	}()
	fnErr = fn(bound, lease)
	return fnErr
}
