package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Info is what can be told about a resource: who holds it, for how long by the store's clock, and how many wait. The
// holder is told by its fingerprint only.
type Info = driver.Info

// Inspect tells who has the resource. It changes nothing. Errors: [ErrUnavailable], ctx's, [ErrClosed],
// [fence.ErrInvalid], [errors.ErrUnsupported] if the store can't tell.
func (l *Locker) Inspect(ctx context.Context, resource string) (Info, error) {
	if err := fence.ValidateResource(resource); err != nil {
		return Info{}, err
	}
	inspector, ok := l.driver.(driver.Inspector)
	if !ok {
		return Info{}, unsupported("inspect", resource)
	}
	var info Info
	err := l.admin(ctx, "inspect", resource, func(ctx context.Context) (err error) {
		info, err = inspector.Inspect(ctx, resource)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// Raise makes all later tokens of the resource larger than past, for a token source that has fallen behind a guard's
// mark; with [WithSeal] that happens by itself. It never lowers anything. Errors: [ErrExhausted] if there is no
// larger one; [ErrUnavailable], ctx's, [ErrClosed], [fence.ErrInvalid], [errors.ErrUnsupported] if the store can't do it.
func (l *Locker) Raise(ctx context.Context, resource string, past fence.Token) error {
	if err := (fence.Claim{Resource: resource, Token: past}).Validate(); err != nil {
		return err
	}
	raiser, ok := l.driver.(driver.Raiser)
	if !ok {
		return unsupported("raise", resource)
	}
	return l.admin(ctx, "raise", resource, func(ctx context.Context) error { return raiser.Raise(ctx, resource, past) })
}

// Break ends whoever's lease of the resource, for an operator who knows that its holder is gone or stuck. It takes the
// resource for a fresh holder and token, has the new claim sealed if [WithSeal] says so - from then on the old holder
// can't write any more -, releases it, and returns the claim. The old holder learns of it at its next renewal. Who waits
// is next. [IfHeldBy] limits it to one holder. A [WithLogger] gets a warning, an [Observer] its Broken.
//
// Errors: [ErrLost] if IfHeldBy names another holder than the present one; the seal's; a [ReleaseError], with the claim,
// if only the release failed: then the TTL ends what was taken; [ErrUnavailable], ctx's, [ErrClosed], [fence.ErrInvalid],
// [errors.ErrUnsupported] if the store can't do it.
func (l *Locker) Break(ctx context.Context, resource string, opts ...Option) (fence.Claim, error) {
	if err := fence.ValidateResource(resource); err != nil {
		return fence.Claim{}, err
	}
	c, err := l.defaults.with(opts)
	if err != nil {
		return fence.Claim{}, err
	}
	breaker, ok := l.driver.(driver.Breaker)
	if !ok {
		return fence.Claim{}, unsupported("break", resource)
	}
	if err := l.over(ctx); err != nil {
		return fence.Claim{}, cutShort("break", resource, err)
	}
	observer := c.observer
	c.renewal, c.minHold, c.observer = renewByTTL, 0, nil // what was taken is nobody's lease
	l.tasks.begin()
	defer l.tasks.end()
	holder := uuid.New()
	sent := l.clock.Now()
	grant, err := l.one(ctx, "break", resource, c, func(ctx context.Context) (driver.Grant, error) {
		return breaker.Break(ctx, driver.Request{Resource: resource, Holder: holder, TTL: c.ttl, Label: c.label}, c.onlyFrom)
	})
	if errors.Is(err, ErrLost) {
		return fence.Claim{}, fmt.Errorf("%w: break %q: it is not held by %q", ErrLost, resource, c.onlyFrom)
	}
	var lease *Lease
	if err == nil {
		lease, err = l.lease(ctx, fence.Claim{Resource: resource, Token: grant.Token, Holder: holder}, c, sent, min(c.ttl, grant.TTL), false)
	}
	if err != nil {
		l.abandon(ctx, resource, holder)
		return fence.Claim{}, err
	}
	claim := lease.claim
	defer func() { // also if it can't be sealed
		l.warn(c.log, "lease broken", "claim", claim)
		l.observe(observer, broken, Event{Claim: claim})
	}()
	if lease, err = lease.sealed(ctx, c.seal); err != nil {
		return fence.Claim{}, err
	}
	claim = lease.claim
	if err := lease.bury(context.WithoutCancel(ctx)); err != nil {
		return claim, &ReleaseError{Resource: resource, Err: err}
	}
	return claim, nil
}

// bury ends the lease for good: no copy of the request that got it is to take the resource from the next holder.
func (le *Lease) bury(ctx context.Context) error {
	l := le.locker
	if first, end := le.finish(&releasedError{le.claim.Resource}); !first {
		return end
	}
	bury := func(ctx context.Context) error { return l.bury(ctx, le.claim.Resource, le.claim.Holder) }
	if err := l.ends(ctx, limits{most: releaseWithin}, bury); err != nil {
		l.inBackground(ctx, le.claim.Resource, bury)
		return unavailable("release", le.claim.Resource, err)
	}
	return nil
}

// admin makes one call of the driver and wraps its error.
func (l *Locker) admin(ctx context.Context, what, resource string, f func(context.Context) error) error {
	l.tasks.begin()
	defer l.tasks.end()
	_, err := l.one(ctx, what, resource, l.defaults, func(ctx context.Context) (driver.Grant, error) {
		return driver.Grant{}, f(ctx)
	})
	return err
}
