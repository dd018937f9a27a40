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

// Resume takes over the lease of a claim that was detached, in another request or process, or still is managed
// elsewhere: the lease gets a fresh holder and token in one atomic step. So a claim is resumed once (a double click
// gets [ErrLost] the second time), and with [WithSeal] its old holder is shut out when Resume returns.
//
// Resume changes neither the lease's expiry nor does it renew it, unless options of this call say so; of the Locker's
// defaults, WithTTL, WithRenewEvery and WithMinHold don't count here. With [WithTTL] the lease ends that much after now,
// sooner or later than it would have; [WithRenewEvery] renews it, by that TTL or the default's.
//
// Errors: [fence.ErrInvalid] for a claim without a holder, [ErrLost] if the claim is not exactly, token included, what
// the store has; [ErrUnavailable], ctx's, [ErrClosed]; the seal's; [errors.ErrUnsupported] if the store can't do
// it. After an error other than ErrLost the lease may be gone: what an unanswered request has taken over is ended in
// the background, and so is a lease whose seal fails.
func (l *Locker) Resume(ctx context.Context, c fence.Claim, opts ...Option) (*Lease, error) {
	began := time.Now()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Holder == uuid.Nil {
		return nil, fmt.Errorf("%w: Resume of a claim without a holder, on %q: want the holder of the lease", fence.ErrInvalid, c.Resource)
	}
	conf := l.defaults
	conf.ttl, conf.renewal, conf.minHold = 0, renewNever, 0
	conf, ttl, err := conf.forResume(opts, l.defaults.ttl)
	if err != nil {
		return nil, err
	}
	resumer, ok := l.driver.(driver.Resumer)
	if !ok {
		return nil, unsupported("resume", c.Resource)
	}
	if err := l.over(ctx); err != nil {
		return nil, cutShort("resume", c.Resource, err)
	}
	l.tasks.begin()
	defer l.tasks.end()
	holder := uuid.New()
	sent := l.clock.Now()
	grant, err := l.one(ctx, "resume", c.Resource, conf, func(ctx context.Context) (driver.Grant, error) {
		return resumer.Resume(ctx, c, driver.Request{Resource: c.Resource, Holder: holder, TTL: ttl, Label: conf.label})
	})
	if errors.Is(err, ErrLost) {
		return nil, fmt.Errorf("%w: %q, the claim is not that of its lease", ErrLost, c.Resource)
	}
	if err == nil {
		left := grant.TTL
		if ttl > 0 {
			left = min(ttl, left)
		}
		var lease *Lease
		if grant.Token <= c.Token {
			err = unavailable("resume", c.Resource, fmt.Errorf("the driver granted token %d, want more than %d", grant.Token, c.Token))
		} else {
			lease, err = l.lease(ctx, fence.Claim{Resource: c.Resource, Token: grant.Token, Holder: holder}, conf, sent, left, false)
		}
		if err == nil {
			if lease, err = lease.sealed(ctx, conf.seal); err != nil {
				return nil, err
			}
			lease.tellAcquired(began)
			return lease, nil
		}
	}
	l.abandon(ctx, c.Resource, holder)
	return nil, err
}

// forResume is with, for a config whose TTL is 0 unless an option says otherwise. It returns the TTL that was asked for.
func (c config) forResume(opts []Option, renewBy time.Duration) (config, time.Duration, error) {
	c, err := c.apply(opts)
	if err != nil {
		return c, 0, err
	}
	asked := c.ttl
	if asked == 0 {
		c.ttl = renewBy
	}
	return c, asked, c.validate()
}

// one makes one call of the driver that answers as Acquire does, and wraps its error: [ErrLost] and [ErrExhausted] as they
// are.
func (l *Locker) one(ctx context.Context, what, resource string, c config, f func(context.Context) (driver.Grant, error)) (driver.Grant, error) {
	if err := l.over(ctx); err != nil {
		return driver.Grant{}, cutShort(what, resource, err)
	}
	got, ended := l.call(ctx, limits{closing: l.closing.Done(), most: max(c.retryFor, leastPatience)}, func(ctx context.Context) answer {
		g, err := f(ctx)
		return answer{grant: g, err: err}
	})
	switch {
	case ended != nil:
		return driver.Grant{}, cutShort(what, resource, ended)
	case got.err != nil && overdue(ctx) != nil:
		return driver.Grant{}, cutShort(what, resource, overdue(ctx))
	case errors.Is(got.err, ErrLost):
		return driver.Grant{}, got.err
	case got.err != nil:
		return driver.Grant{}, failed(what, resource, got.err)
	}
	return got.grant, nil
}

// over returns why nothing is to be sent any more: ctx has ended, or the Locker is closed.
func (l *Locker) over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closing.Err() != nil {
		return ErrClosed
	}
	return nil
}

func unsupported(what, resource string) error {
	return fmt.Errorf("lock: %s %q: the store can't do that: %w", what, resource, errors.ErrUnsupported)
}
