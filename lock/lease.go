package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Lease is a held lock. Its claim never changes. Safe for concurrent use.
type Lease struct {
	locker  *Locker
	config  config
	claim   fence.Claim
	granted time.Time // when the grant's reply came
	slow    bool      // a copy of the request may still be on its way
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// Guarded by locker.mu.
	ttl      time.Duration
	deadline time.Time
	renewAt  time.Time // zero: no renewal to come, or one is under way
	pinned   bool      // an unanswered shortening may take effect yet: nothing lifts the deadline
	place    int       // in the watch's heap
	end      error     // nil while it is held
	released bool      // Release or Detach was called
	renewing bool      // renewals of a lease are serial (L20)
	renewed  chan struct{}
}

// lease makes a granted lease and puts it under watch. ctx gives the values. slow says that a copy of a request before
// this one may still be on its way. After an error the store may have the lease still.
func (l *Locker) lease(ctx context.Context, claim fence.Claim, c config, sent time.Time, ttl time.Duration, slow bool) (*Lease, error) {
	le := &Lease{
		locker: l, config: c, claim: claim, granted: l.clock.Now(),
		ttl: c.ttl, deadline: deadline(sent, ttl),
	}
	took := le.granted.Sub(sent)
	le.slow = slow || l.isSlow(took)
	switch {
	case !claim.Token.Valid():
		return nil, unavailable("acquire", claim.Resource, fmt.Errorf("the driver granted token %d", int64(claim.Token)))
	case l.clock.passed(le.deadline):
		return nil, unavailable("acquire", claim.Resource, fmt.Errorf("the grant of %v arrived after %v", ttl, took))
	}
	le.ctx, le.cancel = context.WithCancelCause(context.WithoutCancel(fence.NewContext(ctx, claim)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		le.cancel(nil)
		return nil, fmt.Errorf("lock: acquire %q: %w", claim.Resource, ErrClosed)
	}
	le.renewAt = le.nextRenewal(sent, ttl)
	l.leases.add(le)
	l.arm()
	return le, nil
}

// tellAcquired tells the observer that the lease is handed out.
func (le *Lease) tellAcquired(began time.Time) {
	if le.config.observer != nil {
		le.locker.observe(le.config.observer, acquired, Event{
			Claim: le.claim, Waited: time.Since(began), Deadline: le.Deadline(),
		})
	}
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
	until, _ := le.ends()
	return le.locker.clock.public(until)
}

func (le *Lease) ends() (deadline time.Time, pinned bool) {
	le.locker.mu.Lock()
	defer le.locker.mu.Unlock()
	return le.deadline, le.pinned
}

// Err returns nil while the lease is held, else an error that wraps [ErrLost] or [ErrReleased]. It looks
// at the clocks now: a lease whose deadline passed while the process stood still is lost at once.
func (le *Lease) Err() error {
	l := le.locker
	l.mu.Lock()
	end, over := le.end, l.clock.passed(le.deadline)
	l.mu.Unlock()
	if end == nil && over {
		return le.lose(expired)
	}
	return end
}

const (
	expired = "it expired"
	gone    = "the store has no such lease any more"
)

// lose ends the lease as lost, unless it has ended before, and returns why it ended.
func (le *Lease) lose(why string) error {
	_, end := le.loseBy(fmt.Errorf("%w: %q, %s", ErrLost, le.claim.Resource, why))
	return end
}

// loseBy is lose, by an error that wraps ErrLost. It returns whether the lease was held until now.
func (le *Lease) loseBy(err error) (first bool, end error) {
	l := le.locker
	first, end = le.finish(err)
	if first {
		l.warn(le.config.log, "lease lost", "claim", le.claim, "why", err)
		until, _ := le.ends()
		l.observe(le.config.observer, lost, Event{Claim: le.claim, Late: max(0, l.clock.Now().Sub(until)), Err: err})
	}
	return first, end
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
	l.mu.Unlock()
	le.cancel(&causeError{err})
	return true, err
}

// Detach stops managing the lease here and returns its claim: no renewal any more, no release - also not by
// [Locker.Close] - and no loss is told. In the store it lives on until its expiry; another request or process
// takes it over with [Locker.Resume]. The lease's context ends; its Release and Renew return [ErrReleased]. For a
// lease that has ended before, it returns the claim and changes nothing.
//
// The claim's holder is the key to the lease. Give it away only as [fence.Keyring.Encode] has it.
func (le *Lease) Detach() fence.Claim {
	l := le.locker
	if le.Err() == nil {
		l.mu.Lock()
		le.released = true
		l.mu.Unlock()
		_, _ = le.finish(fmt.Errorf("%w: %q, it was detached", ErrReleased, le.claim.Resource))
	}
	return le.claim
}
