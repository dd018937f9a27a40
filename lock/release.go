package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// releaseWithin bounds Release, whatever its ctx says.
const releaseWithin = 5 * time.Second

// Release ends the lease: its context at once, then its place in the store. It ignores ctx's
// cancellation and deadline - a deferred Release mostly gets a context that has ended - and takes 5 s
// at most.
//
// It returns nil; an error that wraps [ErrLost] if the lease was over before (the next holder, if there
// is one, is not touched); [ErrReleased] if the lease was released before; [ErrUnavailable] if the store
// could not be reached: then the release is tried again in the background for 10 s, and at the latest
// the TTL ends the lease. A client that repeats a release whose reply was lost may report ErrLost for
// a lease that this very call has ended.
func (le *Lease) Release(ctx context.Context) error {
	l := le.locker
	l.mu.Lock()
	again := le.released
	le.released = true
	l.mu.Unlock()
	if again {
		return &releasedError{le.claim.Resource}
	}
	l.tasks.begin()
	defer l.tasks.end()
	end := le.Err() // looks at the clocks first: what has expired is lost, not released
	if end == nil {
		var first bool
		if first, end = le.finish(&releasedError{le.claim.Resource}); first {
			return le.release(context.WithoutCancel(ctx))
		}
	}
	if errors.Is(end, ErrLost) && le.keep() == 0 {
		l.abandon(ctx, le.claim.Resource, le.claim.Holder) // it may be over here, and not yet there
	}
	return end
}

// release ends the finished lease in the store; what fails it tries again in the background.
func (le *Lease) release(ctx context.Context) error {
	l := le.locker
	a, err := l.call(ctx, limits{most: releaseWithin}, func(ctx context.Context) answer { return answer{err: le.send(ctx)} })
	if err == nil {
		err = a.err
	}
	switch {
	case errors.Is(err, ErrLost):
		err = fmt.Errorf("%w: %q, %s", ErrLost, le.claim.Resource, gone)
	case err != nil:
		err = unavailable("release", le.claim.Resource, err)
	}
	switch {
	case err == nil && le.slow:
		l.abandon(ctx, le.claim.Resource, le.claim.Holder)
	case errors.Is(err, ErrUnavailable):
		l.inBackground(ctx, le.claim.Resource, le.send)
	}
	l.observe(le.config.observer, released, Event{Claim: le.claim, Err: err})
	return err
}

func (le *Lease) send(ctx context.Context) error {
	return le.locker.driver.Release(ctx, le.claim, le.keep())
}

// keep is what is left of the minimum hold.
func (le *Lease) keep() time.Duration {
	return max(0, le.granted.Add(le.config.minHold).Sub(le.locker.clock.Now()))
}

// abandon ends in the background what holder has of the resource, or may yet get.
func (l *Locker) abandon(ctx context.Context, resource string, holder uuid.UUID) {
	l.inBackground(ctx, resource, func(ctx context.Context) error { return l.bury(ctx, resource, holder) })
}

// bury ends what holder has of the resource, a place in line too, and what it may yet get.
func (l *Locker) bury(ctx context.Context, resource string, holder uuid.UUID) error {
	if queue, ok := l.driver.(driver.Waiter); ok {
		return queue.Leave(ctx, resource, holder, l.line.listener)
	}
	return l.driver.Release(ctx, fence.Claim{Resource: resource, Holder: holder}, 0)
}
