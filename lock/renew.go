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
// nothing renews it any more, and Renew returns ErrUnavailable (L20). A client that repeats requests by
// itself may also have a copy of an answered shortening on its way: don't shorten what you will prolong.
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
	select {
	case le.renewing <- struct{}{}:
	case <-bound.Done():
		return le.renewalEnded(ctx)
	}
	defer func() { <-le.renewing }()
	if bound.Err() != nil {
		return le.renewalEnded(ctx)
	}
	sent := time.Now()
	until, pinned := le.ends()
	if pinned {
		return unavailable("renew", le.claim.Resource, errPinned)
	}
	most := until.Sub(sent)
	if le.config.renewAfter(ttl) > 0 {
		most = patience(most) // the automatic renewals wait meanwhile
	}
	r := driver.Renewal{Claim: le.claim, TTL: ttl, Shorten: deadline(sent, ttl).Before(until)}
	errs, ended := within(bound, limits{most: most}, func(ctx context.Context) []error {
		return le.locker.driver.Renew(ctx, []driver.Renewal{r})
	})
	err := ended
	if ended == nil {
		err = answerTo(errs, 0)
	}
	err = le.renewed(r, sent, err)
	if err != nil && ctx.Err() != nil && le.Err() == nil {
		return le.renewalEnded(ctx)
	}
	return err
}

var errPinned = errors.New("an unanswered request to shorten the lease may take effect yet")

func (le *Lease) ends() (deadline time.Time, pinned bool) {
	le.locker.mu.Lock()
	defer le.locker.mu.Unlock()
	return le.deadline, le.pinned
}

func (le *Lease) renewalEnded(ctx context.Context) error {
	if err := le.Err(); err != nil {
		return err
	}
	return fmt.Errorf("lock: renew %q: %w", le.claim.Resource, ctx.Err())
}

// renewed takes in the answer to a renewal and returns what it means for the lease.
func (le *Lease) renewed(r driver.Renewal, sent time.Time, err error) error {
	l := le.locker
	l.mu.Lock()
	switch {
	case le.end != nil:
		defer l.mu.Unlock()
		return le.end
	case passed(le.deadline): // also if the store says yes: a lost lease never revives (L08)
		l.mu.Unlock()
		return le.lose(expired)
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		return le.lose("the store has no such lease any more")
	}
	defer l.mu.Unlock()
	until := deadline(sent, r.TTL)
	if err == nil {
		if r.Shorten || until.After(le.deadline) {
			le.ttl, le.deadline = r.TTL, until
		}
		le.renewAt = le.nextRenewal(sent)
	} else {
		err = unavailable("renew", le.claim.Resource, err)
		switch {
		case r.Shorten: // it may have been shortened, or may yet (L20)
			le.deadline, le.pinned, le.renewAt = until, true, time.Time{}
		case le.config.renewAfter(le.ttl) > 0:
			le.renewAt = time.Now().Add(retryRenewalAfter(time.Until(le.deadline)))
		}
		l.warn(le.config.log, "renewal failed", "claim", le.claim, "deadline", le.deadline, "error", err)
	}
	l.leases.moved(le)
	l.rouse()
	return err
}

// nextRenewal is when a lease that was renewed at sent renews itself again; zero: never. Up to a tenth
// earlier at random, so that leases acquired together don't renew together.
func (le *Lease) nextRenewal(sent time.Time) time.Time {
	after := le.config.renewAfter(le.ttl)
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

// startWatching puts the lease under watch. l.mu is held.
func (l *Locker) startWatching(le *Lease) {
	l.leases.add(le)
	if l.watching {
		l.rouse()
		return
	}
	l.watching = true
	l.tasks.begin()
	go func() {
		defer l.tasks.end()
		l.watch()
	}()
}

// rouse makes the watch look at the leases again.
func (l *Locker) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// watch renews leases in time and ends those whose deadline has passed, until there are none.
func (l *Locker) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		lost, batch := l.takeDue()
		next, any := l.leases.next()
		l.watching = any
		l.mu.Unlock()
		for _, le := range lost {
			_ = le.lose(expired) // its context tells the holder
		}
		if len(batch.leases) > 0 {
			l.tasks.begin()
			go func() {
				defer l.tasks.end()
				l.renew(batch)
			}()
		}
		switch {
		case len(lost) > 0:
			continue
		case !any:
			return
		}
		timer.Reset(min(time.Until(next), watchTick))
		select {
		case <-timer.C:
		case <-l.wake:
		}
	}
}

// batch is the renewals of one call of the driver.
type batch struct {
	leases   []*Lease
	renewals []driver.Renewal
	least    time.Time // the first of their deadlines
}

// takeDue returns the leases whose deadline has passed, and those to be renewed now. l.mu is held.
func (l *Locker) takeDue() (lost []*Lease, b batch) {
	next, any := l.leases.next()
	if !any || !passed(next) {
		return nil, b
	}
	for _, le := range l.leases.due(time.Now().Add(l.leases.together())) {
		switch {
		case passed(le.deadline):
			lost = append(lost, le)
			continue
		case le.renewAt.IsZero():
			continue // due soon, at its deadline
		case len(b.leases) == renewAtOnce:
			return lost, b // the rest stays due
		}
		select {
		case le.renewing <- struct{}{}:
			le.renewAt = time.Time{}
			l.leases.moved(le)
		default: // Renew is at it
			le.renewAt = time.Now().Add(retryRenewalAfter(time.Until(le.deadline)))
			l.leases.moved(le)
			continue
		}
		if len(b.leases) == 0 || le.deadline.Before(b.least) {
			b.least = le.deadline
		}
		b.leases = append(b.leases, le)
		b.renewals = append(b.renewals, driver.Renewal{Claim: le.claim, TTL: le.ttl})
	}
	return lost, b
}

// renew sends the batch and takes in the answers.
func (l *Locker) renew(b batch) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(l.closing, patience(b.least.Sub(sent)))
	defer cancel()
	errs, ended := within(ctx, limits{}, func(ctx context.Context) []error { return l.driver.Renew(ctx, b.renewals) })
	for i, le := range b.leases {
		err := ended
		if ended == nil {
			err = answerTo(errs, i)
		}
		_ = le.renewed(b.renewals[i], sent, err) // logged there; the lease's context tells of a loss
		<-le.renewing
	}
}
