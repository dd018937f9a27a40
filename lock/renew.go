package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

const (
	// watchTick bounds how long the watch sleeps: timers stand still while the machine does, and a
	// lease that slept past its deadline must be noticed (L06).
	watchTick = time.Second
	// renewAtOnce bounds the leases in one call of the driver.
	renewAtOnce = 512
)

// Renew makes the lease end ttl from now, sooner or later than it would have, and sets the TTL of the
// automatic renewals that follow. ttl is in whole milliseconds, 20 ms to 10 years, and not below what is
// left of a minimum hold, else the error wraps [fence.ErrInvalid].
//
// It returns nil; an error that wraps [ErrLost] or [ErrReleased] if the lease is over; [ErrUnavailable]
// if the store could not be reached, or ctx's error: the lease then goes on to its deadline. But if it
// was to be shortened, the request may take effect at any time: the lease ends at the sooner deadline,
// nothing renews it any more, and Renew returns ErrUnavailable (L20). So it is if the answer to a shortening was slow, since
// clients repeat requests and a copy may still be on its way; that Renew returns nil, the next one ErrUnavailable. Don't
// shorten what you will prolong.
func (le *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := validateTTL("Renew", ttl); err != nil {
		return err
	}
	if err := le.Err(); err != nil {
		return err
	}
	if hold := le.keep(); ttl < hold {
		return fmt.Errorf("%w: Renew(%v): want at least %v, what is left of the minimum hold", fence.ErrInvalid, ttl, hold)
	}
	bound, done := le.Bind(ctx)
	defer done()
	if !le.takeTurn(bound) {
		return le.renewalEnded(ctx)
	}
	defer le.passTurn()
	if bound.Err() != nil {
		return le.renewalEnded(ctx)
	}
	l := le.locker
	sent := l.clock.Now()
	until, pinned := le.ends()
	if pinned {
		return unavailable("renew", le.claim.Resource, errPinned)
	}
	most := until.Sub(sent)
	if le.config.renewAfter(ttl) > 0 {
		most = patience(most) // the automatic renewals wait meanwhile
	}
	r := driver.Renewal{Claim: le.claim, TTL: ttl, Shorten: deadline(sent, ttl).Before(until)}
	got, err := l.callRenew(bound, limits{most: most}, func(ctx context.Context) []error {
		return l.driver.Renew(ctx, []driver.Renewal{r})
	})
	if err == nil {
		err = answerTo(got, 0)
	}
	err = le.takeIn(r, sent, err)
	if err != nil && ctx.Err() != nil && le.Err() == nil {
		return le.renewalEnded(ctx)
	}
	return err
}

// takeTurn waits until no other renewal of the lease is under way, or ctx ends.
func (le *Lease) takeTurn(ctx context.Context) bool {
	l := le.locker
	for {
		l.mu.Lock()
		if !le.renewing {
			le.renewing = true
			l.mu.Unlock()
			return true
		}
		if le.renewed == nil {
			le.renewed = make(chan struct{})
		}
		ended := le.renewed
		l.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return false
		}
	}
}

func (le *Lease) passTurn() {
	le.locker.mu.Lock()
	defer le.locker.mu.Unlock()
	le.renewing = false
	if le.renewed != nil {
		close(le.renewed)
		le.renewed = nil
	}
}

var errPinned = errors.New("an unanswered request to shorten the lease may take effect yet")

func (le *Lease) renewalEnded(ctx context.Context) error {
	if err := le.Err(); err != nil {
		return err
	}
	return fmt.Errorf("lock: renew %q: %w", le.claim.Resource, ctx.Err())
}

// takeIn takes in the answer to a renewal and returns what it means for the lease.
func (le *Lease) takeIn(r driver.Renewal, sent time.Time, err error) error {
	l := le.locker
	l.mu.Lock()
	now := l.clock.Now()
	switch {
	case le.end != nil:
		defer l.mu.Unlock()
		return le.end
	case !now.Before(le.deadline): // also if the store says yes: a lost lease never revives (L08)
		l.mu.Unlock()
		return le.lose(expired)
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		return le.lose(gone)
	}
	defer l.mu.Unlock()
	until := deadline(sent, r.TTL)
	event := renewed
	switch {
	case err == nil && r.Shorten && l.isSlow(now.Sub(sent)): // a copy of it may take effect yet, as after a lost answer
		le.ttl, le.deadline, le.pinned, le.renewAt = r.TTL, until, true, time.Time{}
	case err == nil:
		if r.Shorten || until.After(le.deadline) {
			le.ttl, le.deadline = r.TTL, until
		}
		le.renewAt = le.nextRenewal(sent, le.ttl)
	default:
		event = renewFailed
		err = unavailable("renew", le.claim.Resource, err)
		switch {
		case r.Shorten: // it may have been shortened, or may yet (L20)
			le.deadline, le.pinned, le.renewAt = until, true, time.Time{}
		case le.config.renewAfter(le.ttl) > 0:
			le.renewAt = now.Add(retryRenewalAfter(le.deadline.Sub(now)))
		}
		l.warn(le.config.log, "renewal failed", "claim", le.claim, "deadline", l.clock.public(le.deadline), "error", err)
	}
	l.leases.moved(le)
	l.arm()
	if le.config.observer != nil {
		l.observe(le.config.observer, event, Event{Claim: le.claim, Deadline: l.clock.public(le.deadline), Err: err})
	}
	return err
}

// nextRenewal is when a lease that got ttl at sent renews itself; zero: never. Up to a tenth
// earlier at random, so that leases acquired together don't renew together.
func (le *Lease) nextRenewal(sent time.Time, ttl time.Duration) time.Time {
	after := le.config.renewAfter(ttl)
	if after == 0 {
		return time.Time{}
	}
	return sent.Add(after - time.Duration(rand.Int64N(int64(after)/10+1)))
}

// patience is how long a renewal may take with that much time left: half, so that there is another
// try if this one hangs.
func patience(left time.Duration) time.Duration { return max(left/2, time.Millisecond) }

// retryRenewalAfter is when a failed renewal is tried again with that much time left.
func retryRenewalAfter(left time.Duration) time.Duration {
	return min(max(left/8, 5*time.Millisecond), time.Second)
}

func answerTo(errs []error, i int) error {
	if i >= len(errs) {
		return fmt.Errorf("the driver answered %d renewals, want more than %d", len(errs), i)
	}
	return errs[i]
}

// arm sets the timer for the lease that is due first, if it isn't set for sooner. l.mu is held.
func (l *Locker) arm() {
	next, any := l.leases.next()
	if !any {
		return
	}
	now := l.clock.Now()
	at := earlier(next, now.Add(watchTick))
	if !l.armed.IsZero() && !at.Before(l.armed) {
		return
	}
	l.armed = at
	if l.timer == nil {
		l.timer = time.AfterFunc(at.Sub(now), l.watch)
	} else {
		l.timer.Reset(at.Sub(now))
	}
}

// watch renews leases in time and ends those whose deadline has passed. It is called by the timer, on a goroutine of
// its own, and may be under way more than once: a renewal that hangs delays nothing else.
func (l *Locker) watch() {
	l.tasks.begin()
	defer l.tasks.end()
	l.clock.refresh()
	l.mu.Lock()
	l.armed = time.Time{}
	lost, b := l.takeDue()
	l.mu.Unlock()
	for _, le := range lost {
		_ = le.lose(expired) // its context tells the holder
	}
	l.mu.Lock()
	l.arm()
	l.mu.Unlock()
	if b != nil {
		l.renew(b)
	}
}

// batch is the renewals of one call of the driver.
type batch struct {
	leases   []*Lease
	renewals []driver.Renewal
	least    time.Time // the first of their deadlines
}

// newBatch returns an empty one. Their memory is used again: a renewal allocates nothing here.
func (l *Locker) newBatch() *batch {
	if b, ok := l.batches.Get().(*batch); ok {
		return b
	}
	return &batch{}
}

func (l *Locker) freeBatch(b *batch) {
	clear(b.leases)
	b.leases, b.renewals = b.leases[:0], b.renewals[:0]
	l.batches.Put(b)
}

func (b *batch) add(le *Lease) {
	if len(b.leases) == 0 || le.deadline.Before(b.least) {
		b.least = le.deadline
	}
	b.leases = append(b.leases, le)
	b.renewals = append(b.renewals, driver.Renewal{Claim: le.claim, TTL: le.ttl})
}

// takeDue returns the leases whose deadline has passed, and those to be renewed now: nil, if there are none. l.mu is
// held.
func (l *Locker) takeDue() (lost []*Lease, b *batch) {
	next, any := l.leases.next()
	now := l.clock.Now()
	if !any || now.Before(next) {
		return nil, nil
	}
	due := l.leases.due(now.Add(l.leases.together()))
	defer clear(due)
	for _, le := range due {
		switch {
		case !now.Before(le.deadline):
			lost = append(lost, le)
			continue
		case le.renewAt.IsZero():
			continue // due soon, at its deadline
		case b != nil && len(b.leases) == renewAtOnce:
			return lost, b // the rest stays due
		case le.renewing: // by Renew
			le.renewAt = now.Add(retryRenewalAfter(le.deadline.Sub(now)))
		default:
			if b == nil {
				b = l.newBatch()
			}
			b.add(le)
			le.renewing, le.renewAt = true, time.Time{}
		}
		l.leases.moved(le)
	}
	return lost, b
}

// renew sends the batch and takes in the answers.
func (l *Locker) renew(b *batch) {
	sent := l.clock.Now()
	most := patience(b.least.Sub(sent))
	// A driver that looks at its context returns what it has by then: from those stores, or parts of one, that answer.
	ctx, cancel := context.WithTimeout(l.closing, most-most/8)
	defer cancel()
	errs, ended := l.callRenew(l.closing, limits{most: most}, func(context.Context) []error { return l.driver.Renew(ctx, b.renewals) })
	for i, le := range b.leases {
		err := ended
		if ended == nil {
			err = answerTo(errs, i)
		}
		_ = le.takeIn(b.renewals[i], sent, err) // logged there; the lease's context tells of a loss
		le.passTurn()
	}
	if ended == nil {
		l.freeBatch(b) // else the driver still reads it
	}
}

// callRenew is call, of a driver's Renew: always on a goroutine of its own.
func (l *Locker) callRenew(ctx context.Context, limits limits, f func(context.Context) []error) ([]error, error) {
	a, cut := l.callLong(ctx, limits, func(ctx context.Context) answer { return answer{errs: f(ctx)} })
	return a.errs, cut
}
