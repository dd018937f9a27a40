package lock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/lock/driver"
)

const (
	// pollEvery is how often who stands in line asks, whatever it was told: a message can get lost (L12), and by this
	// the store knows that it is alive.
	pollEvery = time.Second
	// turnSlack is what a waiter lets pass after another's turn, so that it is over in the store, too.
	turnSlack = 5 * time.Millisecond
	// mostAhead is as long as a line may be for the time that it takes to be reckoned.
	mostAhead = 1_000_000
	// leastSilent and mostSilent are between polls of the first two in line while there is no subscription: within a turn.
	leastSilent, mostSilent = 100 * time.Millisecond, 200 * time.Millisecond
)

// place is where an acquisition stands in line.
type place struct {
	ticket int64
	freeAt time.Time // when the resource is free, by what was said; zero: unknown
	saidAt time.Time
	waiter waiter
}

// now is the place as the driver is to know it. What was said long ago, before a pause of this process or of the store,
// is no reason to pass over anybody.
func (p *place) now(l *Locker) driver.Place {
	here := driver.Place{Listener: l.line.listener, Ticket: p.ticket}
	if !p.freeAt.IsZero() && time.Since(p.saidAt) < 2*pollEvery {
		here.Overdue = max(0, time.Since(p.freeAt))
	}
	return here
}

// believe takes in that the resource is free after that.
func (p *place) believe(now time.Time, after time.Duration) {
	p.freeAt, p.saidAt = now.Add(after), now
}

// joinLine has what is said to the holder come to this acquisition, from before it can be said.
func (a *acquisition) joinLine() {
	if a.queue != nil {
		a.leaveLine()
		a.locker.line.add(&a.place.waiter, a.holder)
	}
}

// leaveLine is for what is in this process; what is in the store is in doubt, see giveUp.
func (a *acquisition) leaveLine() {
	if a.queue != nil {
		a.locker.line.remove(&a.place.waiter)
	}
}

// standInLine returns nil when it is time to ask again: the turn has come, or should have, or a second has passed. Else
// it returns why there is no more waiting.
//
// When the resource should be free, the first asks; so does the second: it gives the first its turn, in case that is dead,
// or learns that the lease was renewed. Who is further behind asks one turn later for each place.
func (a *acquisition) standInLine(ctx context.Context, q *driver.Queued) error {
	l, w := a.locker, &a.place.waiter
	l.line.listen(l, w) //nolint:contextcheck // the subscription serves all that wait, and outlives the call
	now := time.Now()
	ahead := min(max(0, q.Ahead), mostAhead)
	a.place.ticket, a.place.freeAt = q.Ticket, time.Time{}
	next := now.Add(pollEvery)
	if !l.line.isReady() {
		next = now.Add(min(pollEvery, time.Duration(max(1, ahead))*between(leastSilent, mostSilent)))
	}
	if q.RetryAfter > 0 {
		a.place.believe(now, q.RetryAfter)
		next = earlier(next, a.place.freeAt.Add(time.Duration(max(0, ahead-1))*driver.TurnFor+turnSlack))
	}
	timer := time.NewTimer(next.Sub(now))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closing.Done():
			return ErrClosed
		}
		said, now := l.line.heard(w), time.Now()
		switch {
		case said.anew:
			next = earlier(next, now.Add(between(0, leastSilent)))
		case said.isTurn():
			return nil
		default:
			a.place.believe(now, driver.TurnFor)
			next = earlier(next, now.Add(said.turn.After+turnSlack))
		}
		timer.Reset(next.Sub(now))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func between(least, most time.Duration) time.Duration {
	return least + time.Duration(rand.Int64N(int64(most-least)+1))
}
