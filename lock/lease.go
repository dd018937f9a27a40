package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Lease is a held lock. Its claim never changes. Safe for concurrent use.
type Lease struct {
	locker   *Locker
	config   config
	claim    fence.Claim
	granted  time.Time // when the grant's reply came
	slow     bool      // a copy of the request may still be on its way
	ctx      context.Context
	cancel   context.CancelCauseFunc
	renewing chan struct{} // one slot: renewals of a lease are serial (L20)

	// Guarded by locker.mu.
	ttl      time.Duration
	deadline time.Time
	renewAt  time.Time // zero: no renewal to come, or one is under way
	pinned   bool      // an unanswered shortening may take effect yet: nothing lifts the deadline
	place    int       // in the watch's heap
	end      error     // nil while it is held
	released bool      // Release was called
}

// lease makes a granted lease and puts it under watch. ctx gives the values. After an error the store
// may have the lease still.
func (l *Locker) lease(ctx context.Context, claim fence.Claim, c config, sent time.Time, ttl time.Duration) (*Lease, error) {
	le := &Lease{
		locker: l, config: c, claim: claim, granted: time.Now(),
		renewing: make(chan struct{}, 1),
		ttl:      c.ttl, deadline: deadline(sent, ttl),
	}
	le.slow = le.granted.Sub(sent) > slowAnswer
	le.ctx, le.cancel = context.WithCancelCause(fence.NewContext(context.WithoutCancel(ctx), claim))
	if passed(le.deadline) {
		le.cancel(nil)
		return nil, fmt.Errorf("%w: acquire %q: the grant of %v arrived after %v",
			ErrUnavailable, claim.Resource, ttl, le.granted.Sub(sent))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		le.cancel(nil)
		return nil, fmt.Errorf("lock: acquire %q: %w", claim.Resource, ErrClosed)
	}
	le.renewAt = le.nextRenewal(sent)
	l.startWatching(le) //nolint:contextcheck // the watch serves all leases, and outlives the call
	return le, nil
}

// Claim returns what a guard wants to see. It never changes.
func (le *Lease) Claim() fence.Claim { return le.claim }

// Token returns the claim's token.
func (le *Lease) Token() fence.Token { return le.claim.Token }

// Resource returns the claim's resource.
func (le *Lease) Resource() string { return le.claim.Resource }

// Context returns a context that carries the claim and the values of the acquiring context. It ends
// with the lease: its cause then matches [ErrLost] or [ErrReleased], and [context.Canceled].
func (le *Lease) Context() context.Context { return le.ctx }

// Bind returns ctx, but that it also carries the claim and also ends with the lease, with the lease's
// cause; it has ended if the lease has. Call the function it returns when the work is done.
func (le *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(fence.NewContext(ctx, le.claim))
	if err := le.Err(); err != nil {
		cancel(&causeError{err})
	}
	stop := context.AfterFunc(le.ctx, func() { cancel(context.Cause(le.ctx)) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// Deadline returns when the lease is over unless it is renewed before: the TTL after the last
// successful renewal was sent, less a margin of 1 % (at least 5 ms). For an ended lease, when it would
// have been.
func (le *Lease) Deadline() time.Time {
	le.locker.mu.Lock()
	defer le.locker.mu.Unlock()
	return le.deadline
}

// Err returns nil while the lease is held, else an error that wraps [ErrLost] or [ErrReleased]. It looks
// at the clocks now: a lease whose deadline passed while the process stood still is lost at once.
func (le *Lease) Err() error {
	le.locker.mu.Lock()
	end, over := le.end, passed(le.deadline)
	le.locker.mu.Unlock()
	if end == nil && over {
		return le.lose(expired)
	}
	return end
}

const expired = "it expired"

// lose ends the lease as lost, unless it has ended before, and returns why it ended.
func (le *Lease) lose(why string) error {
	first, end := le.finish(fmt.Errorf("%w: %q, %s", ErrLost, le.claim.Resource, why))
	if first {
		le.locker.warn(le.config.log, "lease lost", "claim", le.claim, "why", why)
	}
	return end
}

// finish ends the lease with err, unless it has ended before. It returns whether that was now, and the
// error that it ended with.
func (le *Lease) finish(err error) (first bool, end error) {
	l := le.locker
	l.mu.Lock()
	if le.end != nil {
		defer l.mu.Unlock()
		return false, le.end
	}
	le.end = err
	l.leases.remove(le)
	if l.leases.empty() {
		l.rouse() // the watch ends
	}
	l.mu.Unlock()
	le.cancel(&causeError{err})
	return true, err
}

// seal has the claim admitted by s, within ctx and the life of the lease. If that fails, or s panics, the
// lease is released.
func (le *Lease) seal(ctx context.Context, s Sealer) error {
	if s == nil {
		return nil
	}
	sealed := false
	defer func() {
		if !sealed {
			le.giveUp(ctx)
		}
	}()
	bound, done := le.Bind(ctx)
	defer done()
	err := s.Admit(bound, le.claim)
	if lost := le.Err(); lost != nil { // also if it was admitted: it is too late to be handed out
		err = lost
	}
	if err != nil {
		return fmt.Errorf("lock: seal %q: %w", le.claim.Resource, err)
	}
	sealed = true
	return nil
}
