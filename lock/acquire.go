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

const (
	firstPoll, mostPoll   = 25 * time.Millisecond, 250 * time.Millisecond
	firstRetry, mostRetry = 20 * time.Millisecond, time.Second

	// leastPatience is how long a try may take at least, however little time for retries is left.
	leastPatience = time.Second
	// slowAnswer is when a client may have repeated a request: a copy of it may still be on its way.
	slowAnswer = 250 * time.Millisecond
)

// Acquire takes a lease on the resource. If another holder has it, Acquire tries again until ctx ends;
// if the store can't be reached, or does not answer, until [WithRetryFor] has passed without contact.
//
// Errors: ctx's when it ends; [ErrUnavailable]; [ErrClosed]; [fence.ErrInvalid] for a bad resource or
// option; the seal's; with [WithoutWaiting] a [HeldError]. After any of them nothing is held: what an
// unanswered request may have won is ended in the background, for 10 s; after that its TTL ends it.
//
// The lease's context keeps ctx's values, not its end: a deadline set for waiting doesn't end the lease.
func (l *Locker) Acquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	if err := fence.ValidateResource(resource); err != nil {
		return nil, err
	}
	c, err := l.defaults.with(opts)
	if err != nil {
		return nil, err
	}
	l.tasks.begin()
	defer l.tasks.end()
	a := acquisition{locker: l, resource: resource, config: c}
	lease, err := a.wait(ctx)
	if err != nil {
		if a.doubt != uuid.Nil {
			l.abandon(ctx, resource, a.doubt)
		}
		return nil, err
	}
	if err := lease.seal(ctx, c.seal); err != nil {
		return nil, err
	}
	return lease, nil
}

// TryAcquire is [Locker.Acquire] with [WithoutWaiting]. It fails as soon as the store answers or can't be
// reached; a store that is silent it gives the time of [WithRetryFor], at least 1 s.
func (l *Locker) TryAcquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	return l.Acquire(ctx, resource, append(opts[:len(opts):len(opts)], WithoutWaiting())...)
}

// acquisition is one call of Acquire.
type acquisition struct {
	locker   *Locker
	resource string
	config   config
	doubt    uuid.UUID // the holder of a try whose answer was lost: it may have won, or may yet
}

// wait tries until it has the lease, or gives up.
func (a *acquisition) wait(ctx context.Context) (*Lease, error) {
	var (
		contact         = time.Now()
		polls, failures int
		pause           time.Duration
	)
	for {
		lease, err := a.try(ctx, max(a.config.retryFor-time.Since(contact), leastPatience))
		var held *HeldError
		switch {
		case err == nil:
			return lease, nil
		case a.config.noWaiting:
			return nil, err
		case errors.As(err, &held):
			contact, failures = time.Now(), 0
			pause = backoff(polls, firstPoll, mostPoll)
			if held.RetryAfter > 0 {
				pause = min(pause, held.RetryAfter)
			}
			polls++
		case errors.Is(err, ErrUnavailable):
			pause = backoff(failures, firstRetry, mostRetry)
			if time.Since(contact)+pause >= a.config.retryFor {
				return nil, err
			}
			failures++
		default:
			return nil, err
		}
		if ended := a.locker.sleep(ctx, pause); ended != nil {
			return nil, fmt.Errorf("%w; the last try said: %v", a.ended(ended), err)
		}
	}
}

// try makes one try, for a holder of its own: after a lost answer a replay under the old holder could
// take the resource once more, long after this acquisition's lease was released. The old holder is
// abandoned first. Each request may take as long as patience.
func (a *acquisition) try(ctx context.Context, patience time.Duration) (*Lease, error) {
	l := a.locker
	limits := limits{closing: l.closing.Done(), most: patience}
	switch {
	case ctx.Err() != nil:
		return nil, a.ended(ctx.Err())
	case l.closing.Err() != nil:
		return nil, a.ended(ErrClosed)
	}
	if a.doubt != uuid.Nil {
		nobody := fence.Claim{Resource: a.resource, Holder: a.doubt}
		err, ended := within(ctx, limits, func(ctx context.Context) error {
			return l.driver.Release(ctx, nobody, 0)
		})
		switch {
		case ended != nil:
			return nil, a.ended(ended)
		case err != nil && ctx.Err() != nil:
			return nil, a.ended(ctx.Err())
		case err != nil:
			return nil, unavailable("acquire", a.resource, err)
		}
		a.doubt = uuid.Nil
	}

	request := driver.Request{Resource: a.resource, Holder: uuid.New(), TTL: a.config.ttl, Label: a.config.label}
	type answer struct {
		grant driver.Grant
		err   error
	}
	sent := time.Now()
	got, ended := within(ctx, limits, func(ctx context.Context) answer {
		g, err := l.driver.Acquire(ctx, request)
		return answer{g, err}
	})
	var held *driver.Held
	switch {
	case ended == nil && errors.As(got.err, &held):
		if time.Since(sent) > slowAnswer {
			a.doubt = request.Holder
		}
		return nil, &HeldError{Resource: a.resource, RetryAfter: held.RetryAfter}
	case ended == nil && got.err == nil && got.grant.Token.Valid():
		claim := fence.Claim{Resource: a.resource, Token: got.grant.Token, Holder: request.Holder}
		lease, err := l.lease(ctx, claim, a.config, sent, min(a.config.ttl, got.grant.TTL))
		if err != nil {
			a.doubt = request.Holder
		}
		return lease, err
	}
	a.doubt = request.Holder
	switch {
	case ended != nil:
		return nil, a.ended(ended)
	case ctx.Err() != nil:
		return nil, a.ended(ctx.Err())
	case got.err != nil:
		return nil, unavailable("acquire", a.resource, got.err)
	default:
		return nil, unavailable("acquire", a.resource, fmt.Errorf("the driver granted token %d", got.grant.Token))
	}
}

// ended is the error of a try that was cut short by err: the context's, or what within says.
func (a *acquisition) ended(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrClosed) {
		return unavailable("acquire", a.resource, err)
	}
	return fmt.Errorf("lock: acquire %q: %w", a.resource, err)
}

// sleep returns nil after d, or earlier why there is no more waiting.
func (l *Locker) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing.Done():
		return ErrClosed
	}
}

// unavailable wraps what a driver said. A context's error inside it is the client's own timeout, not
// the caller's, and must not be taken for it.
func unavailable(what, resource string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s %q: %v", ErrUnavailable, what, resource, err)
	}
	return fmt.Errorf("%w: %s %q: %w", ErrUnavailable, what, resource, err)
}
