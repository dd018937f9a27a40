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
	// slowAnswer is when a client may have repeated a request at the latest: a copy of it may still be on its way.
	slowAnswer = 250 * time.Millisecond
)

// Acquire takes a lease on the resource. If another holder has it, Acquire waits until ctx ends: in line with
// the others, first come, first served, if the store keeps a queue; else it tries again, and again. If the store can't
// be reached, or does not answer, it goes on until [WithRetryFor] has passed without contact.
//
// Errors: ctx's when it ends; [ErrUnavailable]; [ErrClosed]; [fence.ErrInvalid] for a bad resource or
// option; the seal's; with [WithoutWaiting] a [HeldError]. After any of them nothing is held, and the place in
// line is given up: what an unanswered request may have won is ended in the background, for 10 s; after that
// its TTL ends it.
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
	return l.acquire(ctx, resource, c)
}

// TryAcquire is [Locker.Acquire] with [WithoutWaiting]. It fails as soon as the store answers or can't be
// reached; a store that is silent it gives the time of [WithRetryFor], at least 1 s.
func (l *Locker) TryAcquire(ctx context.Context, resource string, opts ...Option) (*Lease, error) {
	if err := fence.ValidateResource(resource); err != nil {
		return nil, err
	}
	c, err := l.defaults.with(opts)
	if err != nil {
		return nil, err
	}
	c.noWaiting = true
	return l.acquire(ctx, resource, c)
}

func (l *Locker) acquire(ctx context.Context, resource string, c config) (*Lease, error) {
	began := time.Now()
	lease, err := l.takeLease(ctx, resource, c)
	if err != nil {
		return nil, err
	}
	lease.tellAcquired(began)
	return lease, nil
}

// takeLease is acquire, but that the observer hears of nothing but the waiting.
func (l *Locker) takeLease(ctx context.Context, resource string, c config) (*Lease, error) {
	l.tasks.begin()
	defer l.tasks.end()
	a := acquisition{locker: l, resource: resource, config: c, began: time.Now()}
	if !c.noWaiting {
		a.queue, _ = l.driver.(driver.Waiter)
	}
	defer func() {
		if a.doubt != uuid.Nil { // also if the driver has panicked
			l.inBackground(ctx, resource, a.giveUp)
		}
	}()
	lease, err := a.wait(ctx)
	if err != nil {
		return nil, err
	}
	return lease.sealed(ctx, c.seal)
}

// acquisition is one call of Acquire.
type acquisition struct {
	locker   *Locker
	resource string
	config   config
	queue    driver.Waiter // nil: the store has none, or the caller doesn't wait
	began    time.Time
	contact  time.Time // the last time that the store has answered

	holder uuid.UUID // of the tries; zero: the next one makes another
	doubt  uuid.UUID // the holder that may have something in the store: a place in line, or what an unanswered try has won
	slow   bool      // a copy of a request of holder's may still be on its way
	place  place
	told   bool // the observer knows of the waiting
}

// wait tries until it has the lease, or gives up.
func (a *acquisition) wait(ctx context.Context) (*Lease, error) {
	defer a.leaveLine()
	a.contact = a.began
	for polls, failures := 0, 0; ; {
		lease, err := a.try(ctx, max(a.config.retryFor-time.Since(a.contact), leastPatience))
		if err == nil {
			return lease, nil
		}
		var (
			ended        error
			queued, line = as[*driver.Queued](err)
			held, taken  = as[*HeldError](err)
		)
		switch {
		case line && a.queue != nil:
			failures = 0
			a.observe(waiting, nil)
			ended = a.standInLine(ctx, queued)
		case a.config.noWaiting:
			if taken {
				a.observe(heldBack, err)
			}
			return nil, err
		case taken:
			failures = 0
			a.observe(waiting, nil)
			pause := backoff(polls, firstPoll, mostPoll)
			if held.RetryAfter > 0 {
				pause = min(pause, held.RetryAfter+turnSlack)
			}
			polls++
			ended = a.locker.sleep(ctx, pause)
		case errors.Is(err, ErrUnavailable):
			pause := backoff(failures, firstRetry, mostRetry)
			if time.Since(a.contact)+pause >= a.config.retryFor {
				return nil, err
			}
			failures++
			ended = a.locker.sleep(ctx, pause)
		default:
			return nil, err
		}
		if ended != nil {
			return nil, fmt.Errorf("%w; the last try said: %v", a.ended(ended), err)
		}
	}
}

// observe tells the observer, of waiting once only.
func (a *acquisition) observe(which func(*Observer) func(Event), err error) {
	if a.config.observer == nil || a.told {
		return
	}
	a.told = true
	e := Event{Claim: fence.Claim{Resource: a.resource}, Err: err}
	if err != nil {
		e.Waited = time.Since(a.began)
	}
	a.locker.observe(a.config.observer, which, e)
}

// try makes one try. Without a queue each has a holder of its own: after a lost answer a replay under the old
// holder could take the resource once more, long after this acquisition's lease was released. In line the holder
// stays the same until an answer is lost. A holder in doubt is given up before there is another. Each request may take
// as long as patience.
func (a *acquisition) try(ctx context.Context, patience time.Duration) (*Lease, error) {
	l := a.locker
	limits := limits{closing: l.closing.Done(), most: patience}
	switch {
	case ctx.Err() != nil:
		return nil, a.ended(ctx.Err())
	case l.closing.Err() != nil:
		return nil, a.ended(ErrClosed)
	}
	if a.holder == uuid.Nil && a.doubt != uuid.Nil {
		if err := l.ends(ctx, limits, a.giveUp); err != nil {
			return nil, a.failed(ctx, err)
		}
		a.doubt = uuid.Nil
	}
	if a.holder == uuid.Nil {
		a.holder, a.slow = uuid.New(), false
		a.joinLine()
	}

	request := driver.Request{Resource: a.resource, Holder: a.holder, TTL: a.config.ttl, Label: a.config.label}
	sent := l.clock.Now()
	a.doubt = a.holder
	got, ended := l.call(ctx, limits, func(ctx context.Context) answer {
		g, err := a.send(ctx, request)
		return answer{grant: g, err: err}
	})
	if l.isSlow(l.clock.Now().Sub(sent)) {
		a.slow = true
	}
	switch {
	case ended != nil:
		a.holder = uuid.Nil
		return nil, a.ended(ended)
	case got.err == nil:
		claim := fence.Claim{Resource: a.resource, Token: got.grant.Token, Holder: a.holder}
		lease, err := l.lease(ctx, claim, a.config, sent, min(a.config.ttl, got.grant.TTL), a.slow)
		a.holder = uuid.Nil
		if err == nil {
			a.doubt = uuid.Nil
		}
		return lease, err
	}
	if queued, ok := as[*driver.Queued](got.err); ok && a.queue != nil {
		a.contact = time.Now()
		return nil, queued
	}
	a.holder = uuid.Nil
	if held, ok := as[*driver.Held](got.err); ok {
		a.contact = time.Now()
		if !a.slow {
			a.doubt = uuid.Nil
		}
		return nil, &HeldError{Resource: a.resource, RetryAfter: held.RetryAfter}
	}
	return nil, a.failed(ctx, got.err)
}

// as is errors.As.
func as[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// isSlow reports whether a request that took that long may have been sent twice.
func (l *Locker) isSlow(took time.Duration) bool { return took >= l.slowAfter }

func (a *acquisition) send(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if a.queue == nil {
		return a.locker.driver.Acquire(ctx, r)
	}
	return a.queue.Wait(ctx, r, a.place.now(a.locker))
}

// giveUp ends what the holder in doubt has in the store, or may yet get.
func (a *acquisition) giveUp(ctx context.Context) error {
	return a.locker.bury(ctx, a.resource, a.doubt)
}

// ended is the error of a try that was cut short by err: the context's, or what call says.
func (a *acquisition) ended(err error) error { return cutShort("acquire", a.resource, err) }

// failed is the error of a try to which the driver said err.
func (a *acquisition) failed(ctx context.Context, err error) error {
	if ended := overdue(ctx); ended != nil {
		return a.ended(ended)
	}
	if errors.Is(err, ErrClosed) {
		return a.ended(ErrClosed)
	}
	return failed("acquire", a.resource, err)
}

func cutShort(what, resource string, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrClosed) {
		return unavailable(what, resource, err)
	}
	return fmt.Errorf("lock: %s %q: %w", what, resource, err)
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

// failed wraps what a driver said: that there is no token left, or else that it could not decide.
func failed(what, resource string, err error) error {
	if errors.Is(err, ErrExhausted) {
		return fmt.Errorf("%s %q: %w", what, resource, err)
	}
	return unavailable(what, resource, err)
}

// unavailable wraps what a driver said. A context's error inside it is the client's own timeout, not
// the caller's, and must not be taken for it.
func unavailable(what, resource string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s %q: %v", ErrUnavailable, what, resource, err)
	}
	return fmt.Errorf("%w: %s %q: %w", ErrUnavailable, what, resource, err)
}
