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
	err := s.Admit(fence.NewContext(bound, le.claim), le.claim)
	for range mostHeals {
		mark, behind := markAbove(err, le.claim)
		raiser, can := le.locker.driver.(driver.Raiser)
		if !behind || !can || le.Err() != nil {
			break
		}
		if why := le.advance(bound, raiser, mark); why != nil {
			return fmt.Errorf("lock: seal %q: %w; the token can't be lifted past the mark: %w", le.claim.Resource, err, why)
		}
		err = s.Admit(fence.NewContext(bound, le.claim), le.claim)
	}
	if lost := le.Err(); lost != nil { // also if it was admitted: it is too late to be handed out
		err = lost
	}
	if err != nil {
		return fmt.Errorf("lock: seal %q: %w", le.claim.Resource, err)
	}
	sealed = true
	return nil
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

// advance gives the lease, that is not handed out yet, a token past the mark.
func (le *Lease) advance(ctx context.Context, r driver.Raiser, mark fence.Token) error {
	l := le.locker
	lifted, err := l.one(ctx, "raise", le.claim.Resource, le.config, func(ctx context.Context) (driver.Grant, error) {
		token, err := r.Advance(ctx, le.claim, mark)
		return driver.Grant{Token: token}, err
	})
	switch {
	case errors.Is(err, ErrLost):
		return le.lose(gone)
	case err != nil:
		return err
	case lifted.Token <= mark:
		return unavailable("raise", le.claim.Resource, fmt.Errorf("the driver answered token %d, want more than %d", lifted.Token, mark))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	le.claim.Token = lifted.Token
	le.ctx = fence.NewContext(le.ctx, le.claim)
	return nil
}

// giveUp ends a lease that is not handed out, in the background if ctx has ended.
func (le *Lease) giveUp(ctx context.Context) {
	l := le.locker
	_, _ = le.finish(fmt.Errorf("%w: %q", ErrReleased, le.claim.Resource))
	if ctx.Err() == nil {
		err, ended := l.ends.within(ctx, limits{most: releaseWithin, obeyed: l.obeyed}, func(ctx context.Context) error { return l.driver.Release(ctx, le.claim, 0) })
		if ended == nil && (err == nil || errors.Is(err, ErrLost)) && !le.slow {
			return
		}
	}
	l.abandon(ctx, le.claim.Resource, le.claim.Holder)
}
