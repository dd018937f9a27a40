package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Sealer admits a claim. Every guard with the full rule is one.
type Sealer interface {
	Admit(ctx context.Context, c fence.Claim) error
}

// mostHeals is how often one acquire lifts its token: the mark may move meanwhile.
const mostHeals = 3

// sealed has the claim admitted by s, within ctx and the life of the lease, and returns the lease: another one, if the
// token had to be lifted (L19). If that fails, or s panics, the lease is released.
func (le *Lease) sealed(ctx context.Context, s Sealer) (out *Lease, err error) {
	if s == nil {
		return le, nil
	}
	defer func() {
		if out == nil {
			le.giveUp(ctx)
		}
	}()
	for heals := 0; ; heals++ {
		err := le.admit(ctx, s)
		if err == nil {
			return le, nil
		}
		mark, behind := markAbove(err, le.claim)
		raiser, can := le.locker.driver.(driver.Raiser)
		if !behind || !can || heals == mostHeals || le.Err() != nil {
			return nil, fmt.Errorf("lock: seal %q: %w", le.claim.Resource, err)
		}
		lifted, why := le.lift(ctx, raiser, mark)
		if why != nil {
			return nil, fmt.Errorf("lock: seal %q: %v; the token can't be lifted: %w", le.claim.Resource, err, why)
		}
		le = lifted
	}
}

// admit asks s once.
func (le *Lease) admit(ctx context.Context, s Sealer) error {
	bound, done := le.Bind(ctx)
	defer done()
	err := s.Admit(bound, le.claim)
	if lost := le.Err(); lost != nil { // also if it was admitted: it is too late to be handed out
		return lost
	}
	return err
}

// markAbove returns the mark that refused the claim, if a larger token would do (L19).
func markAbove(err error, c fence.Claim) (mark fence.Token, behind bool) {
	var rejected *fence.RejectedError
	if !errors.As(err, &rejected) {
		return 0, false
	}
	switch {
	case errors.Is(err, fence.ErrDuplicate):
		return max(rejected.Mark, c.Token), true
	case errors.Is(err, fence.ErrStale) && rejected.Mark > 0:
		return rejected.Mark, true
	}
	return 0, false
}

// lift gives the lease, that is not handed out yet, a token past the mark: a lease of its own, since a claim never
// changes.
func (le *Lease) lift(ctx context.Context, r driver.Raiser, mark fence.Token) (*Lease, error) {
	l := le.locker
	bound, done := le.Bind(ctx)
	defer done()
	got, err := l.one(bound, "raise", le.claim.Resource, le.config, func(ctx context.Context) (driver.Grant, error) {
		token, err := r.Advance(ctx, le.claim, mark)
		return driver.Grant{Token: token}, err
	})
	switch {
	case errors.Is(err, ErrLost):
		return nil, le.lose(gone)
	case err != nil && le.Err() != nil:
		return nil, le.Err()
	case err != nil:
		return nil, err
	case got.Token <= mark || got.Token <= le.claim.Token:
		return nil, unavailable("raise", le.claim.Resource, fmt.Errorf("the driver answered token %d, want one above %d", got.Token, mark))
	}
	claim := le.claim
	claim.Token = got.Token
	return le.as(claim)
}

// as puts a lease with another claim in the place of this one.
func (le *Lease) as(claim fence.Claim) (*Lease, error) {
	l := le.locker
	l.mu.Lock()
	defer l.mu.Unlock()
	if le.end != nil {
		return nil, le.end
	}
	other := &Lease{
		locker: l, config: le.config, claim: claim, granted: le.granted, slow: le.slow,
		ttl: le.ttl, deadline: le.deadline, renewAt: le.renewAt,
	}
	if le.renewing {
		other.renewAt = other.nextRenewal(l.clock.Now(), le.ttl)
	}
	other.ctx, other.cancel = context.WithCancelCause(context.WithoutCancel(fence.NewContext(le.ctx, claim)))
	le.end = &releasedError{claim.Resource}
	l.leases.remove(le)
	le.cancel(&causeError{le.end})
	l.leases.add(other)
	l.arm()
	return other, nil
}

// giveUp ends a lease that is not handed out, in the background if ctx has ended.
func (le *Lease) giveUp(ctx context.Context) {
	l := le.locker
	first, end := le.finish(&releasedError{le.claim.Resource})
	if !first && !errors.Is(end, ErrLost) {
		return // Close releases it
	}
	if first && !le.slow && ctx.Err() == nil {
		err := l.ends(ctx, limits{most: releaseWithin}, func(ctx context.Context) error { return l.driver.Release(ctx, le.claim, 0) })
		if err == nil || errors.Is(err, ErrLost) {
			return
		}
	}
	l.abandon(ctx, le.claim.Resource, le.claim.Holder)
}
