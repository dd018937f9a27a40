package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errNoAnswer is a driver's call that took longer than it may.
var errNoAnswer = errors.New("no answer")

// limits are what else than its context a driver's call may be cut short by; the zero limits: nothing.
type limits struct {
	closing <-chan struct{} // gives ErrClosed
	most    time.Duration   // gives errNoAnswer
}

// within returns what f returns, or the error of what cuts it short, whether f has come back or not: a
// client may look at its own timeouts only (go-redis by default), and a caller's deadline must hold all
// the same. A late f ends by itself; its answer is dropped. A panic of f is one of the caller's.
func within[T any](ctx context.Context, limits limits, f func(context.Context) T) (T, error) {
	type outcome struct {
		answer   T
		returned bool
		panicked any
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	var tooLong <-chan time.Time
	if limits.most > 0 {
		timer := time.NewTimer(limits.most)
		defer timer.Stop()
		tooLong = timer.C
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if !o.returned {
				o.panicked = recover() // nil after runtime.Goexit
			}
			done <- o
		}()
		o.answer = f(ctx)
		o.returned = true
	}()
	select {
	case o := <-done:
		switch {
		case o.returned:
			return o.answer, nil
		case o.panicked != nil:
			panic(o.panicked)
		default:
			return none, errors.New("the driver has ended its goroutine")
		}
	case <-ctx.Done():
		return none, ctx.Err()
	case <-limits.closing:
		return none, ErrClosed
	case <-tooLong:
		return none, fmt.Errorf("%w within %v", errNoAnswer, limits.most)
	}
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
