package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Set is the leases of several resources, that begin and end together. Safe for concurrent use.
type Set struct {
	leases   []*Lease // sorted by resource
	ctx      context.Context
	cancel   context.CancelCauseFunc
	keep     func() bool // stops that the end of one lease ends the others
	released atomic.Bool
}

// AcquireAll takes leases on all resources, or on none. It takes one after the other, sorted by name, so that sets that
// overlap can't wait for each other in a circle; while it waits for one it holds those before. A resource that is
// named twice is taken once.
//
// If one of the leases ends, the set ends: its context, and the other leases. Options and errors are those of
// [Locker.Acquire], the time of [WithRetryFor] counts for each; no resources at all is an error that wraps [fence.ErrInvalid]. [ErrLost] says that a lease was lost
// while the set waited for the next.
func (l *Locker) AcquireAll(ctx context.Context, resources []string, opts ...Option) (*Set, error) {
	if len(resources) == 0 {
		return nil, fmt.Errorf("%w: AcquireAll of no resources: want at least one", fence.ErrInvalid)
	}
	for _, r := range resources {
		if err := fence.ValidateResource(r); err != nil {
			return nil, err
		}
	}
	c, err := l.defaults.with(opts)
	if err != nil {
		return nil, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(resources)))
	l.tasks.begin()
	defer l.tasks.end()
	began := time.Now()
	s := &Set{}
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.cancel = cancel
	whole := false
	defer func() {
		if !whole {
			cancel(nil)
			_ = concurrently(s.leases, func(le *Lease) error { le.giveUp(ctx); return nil })
		}
	}()
	s.ctx = held
	for _, name := range names {
		lease, err := acquireWhile(ctx, held, l, name, c)
		if err != nil {
			return nil, err
		}
		s.leases = append(s.leases, lease)
		s.ctx = fence.NewContext(s.ctx, lease.claim)
		context.AfterFunc(lease.ctx, func() { cancel(context.Cause(lease.ctx)) }) //nolint:contextcheck // the lease outlives the call
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	for _, lease := range s.leases {
		lease.tellAcquired(began)
	}
	s.keep = context.AfterFunc(held, func() { s.endRest(l) })
	whole = true
	return s, nil
}

// acquireWhile takes one lease, as long as those before are held.
func acquireWhile(ctx, held context.Context, l *Locker, name string, c config) (*Lease, error) {
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(nil) })()
	lease, err := l.takeLease(bound, name, c)
	if err != nil && ctx.Err() == nil && held.Err() != nil {
		return nil, fmt.Errorf("lock: acquire %q: %w", name, withoutCancel(context.Cause(held)))
	}
	return lease, err
}

// endRest ends the other leases when one has ended.
func (s *Set) endRest(l *Locker) {
	l.tasks.begin()
	defer l.tasks.end()
	why := withoutCancel(context.Cause(s.ctx))
	for _, le := range s.leases {
		if first, _ := le.loseBy(fmt.Errorf("%w: %q, with its set: %v", ErrLost, le.claim.Resource, why)); first {
			l.inBackground(s.ctx, le.claim.Resource, le.send)
		}
	}
}

// Release ends all leases, as [Lease.Release] does. It returns the errors of those that failed, joined: nil, [ErrLost],
// [ErrUnavailable]; [ErrReleased] if the set was released before.
func (s *Set) Release(ctx context.Context) error {
	if s.released.Swap(true) {
		return ErrReleased
	}
	s.keep()
	end := s.Err()
	if end == nil {
		end = ErrReleased
	}
	s.cancel(&causeError{end})
	return concurrently(s.leases, func(le *Lease) error { return le.Release(ctx) })
}

// Claims returns the claims of all leases, sorted by resource.
func (s *Set) Claims() []fence.Claim {
	claims := make([]fence.Claim, len(s.leases))
	for i, le := range s.leases {
		claims[i] = le.claim
	}
	return claims
}

// Context returns a context that carries all claims and the values of the acquiring context. It ends with the
// first of the leases: its cause then matches [ErrLost] or [ErrReleased], and [context.Canceled].
func (s *Set) Context() context.Context { return s.ctx }

// Deadline returns the first of the leases' deadlines: see [Lease.Deadline].
func (s *Set) Deadline() time.Time {
	first := s.leases[0].Deadline()
	for _, le := range s.leases[1:] {
		first = earlier(first, le.Deadline())
	}
	return first
}

// Err returns nil while all leases are held, else why the first of them that has ended has. It looks at the clocks now.
func (s *Set) Err() error {
	if s.ctx.Err() != nil {
		return withoutCancel(context.Cause(s.ctx))
	}
	for _, le := range s.leases {
		if err := le.Err(); err != nil {
			return err
		}
	}
	return nil
}

// withoutCancel is the error of an ended lease, from the cause of its context.
func withoutCancel(cause error) error {
	var c *causeError
	if errors.As(cause, &c) {
		return c.err
	}
	return cause
}
