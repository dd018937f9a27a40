package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/lock/driver"
)

// errNoAnswer is a driver's call that took longer than it may.
var errNoAnswer = errors.New("no answer")

const (
	// shortCall is how long a call of a driver that obeys deadlines may hold its caller's goroutine.
	shortCall = 250 * time.Millisecond
	// longCalls is for how long there are no short ones after one that was too short.
	longCalls = time.Minute
)

// limits are what else than its context a driver's call may be cut short by.
type limits struct {
	most    time.Duration   // gives errNoAnswer
	closing <-chan struct{} // gives ErrClosed; nil: nothing does
}

// answer is what a driver says.
type answer struct {
	grant driver.Grant
	err   error
	errs  []error // to renewals
}

// call returns what f returns, or the error of what cuts it short, whether f has come back or not: a
// client may look at its own timeouts only (go-redis by default), and a caller's deadline must hold all
// the same. A late f, whose context has ended, ends by itself; its answer is dropped. A panic of f is one of the
// caller's.
//
// If the driver obeys deadlines, f has a short time to come back on the caller's goroutine: to another goroutine and back
// takes as long as Redis does. What takes longer is sent once more, by f on a goroutine of its own; drivers are made for
// that (L03).
func (l *Locker) call(ctx context.Context, limits limits, f func(context.Context) answer) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	if l.obeyed && time.Now().UnixNano() >= l.longCallsUntil.Load() {
		a, tooShort := callShortly(ctx, min(limits.most, shortCall), f)
		if !tooShort || limits.most <= shortCall || overdue(ctx) != nil {
			return a, nil
		}
		l.longCallsUntil.Store(time.Now().Add(longCalls).UnixNano())
		limits.most -= shortCall
	}
	return l.callLong(ctx, limits, f)
}

// callLong calls f on a goroutine of its own.
func (l *Locker) callLong(ctx context.Context, limits limits, f func(context.Context) answer) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	c, ok := l.calls.Get().(*call)
	if !ok {
		c = newCall()
	}
	c.timer.Reset(limits.most)
	go c.run(bound, f)
	select {
	case o := <-c.done:
		c.timer.Stop()
		l.calls.Put(c)
		return o.result()
	case <-ctx.Done():
		c.timer.Stop() // f is still at it: c is not used again
		return answer{}, ctx.Err()
	case <-limits.closing:
		c.timer.Stop()
		return answer{}, ErrClosed
	case <-c.timer.C:
		return answer{}, fmt.Errorf("%w within %v", errNoAnswer, limits.most)
	}
}

// callShortly calls f on this goroutine. It reports whether f failed because its time was over.
func callShortly(ctx context.Context, most time.Duration, f func(context.Context) answer) (a answer, tooShort bool) {
	bound, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	a = f(bound)
	return a, a.err != nil && overdue(bound) != nil
}

// overdue is ctx's error, also if its deadline has come and its timer has not.
func overdue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, timed := ctx.Deadline(); timed && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// call is what a call needs, to be used again once it has returned.
type call struct {
	done  chan outcome // one slot
	timer *time.Timer
}

type outcome struct {
	answer   answer
	returned bool
	panicked any // nil after runtime.Goexit
}

func (o outcome) result() (answer, error) {
	if o.panicked != nil {
		panic(o.panicked)
	}
	if !o.returned {
		return answer{}, errors.New("the driver has ended its goroutine")
	}
	return o.answer, nil
}

func newCall() *call {
	c := &call{done: make(chan outcome, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

func (c *call) run(ctx context.Context, f func(context.Context) answer) {
	var o outcome
	defer func() {
		if !o.returned {
			o.panicked = recover()
		}
		c.done <- o
	}()
	o.answer = f(ctx)
	o.returned = true
}

// backoff is the time before the nth try after a failure, n from 0: doubling from first to most,
// less up to a half at random.
func backoff(n int, first, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(first<<n, most)
	}
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}
