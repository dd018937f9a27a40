package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// errNoAnswer is a driver's call that took longer than it may.
var errNoAnswer = errors.New("no answer")

// limits are what else than its context a driver's call may be cut short by.
type limits struct {
	most    time.Duration   // gives errNoAnswer
	closing <-chan struct{} // gives ErrClosed; nil: nothing does
	obeyed  bool            // the driver obeys deadlines, see [driver.Features]
}

// calls makes a Locker's calls of its driver that answer with a T. What a call needs is used again by the next: in a
// pool of the Locker's own, since a channel made in a synctest bubble must stay there.
type calls[T any] struct{ idle sync.Pool }

// within returns what f returns, or the error of what cuts it short, whether f has come back or not: a
// client may look at its own timeouts only (go-redis by default), and a caller's deadline must hold all
// the same. A late f, whose context has ended, ends by itself; its answer is dropped. A panic of f is one of the
// caller's.
//
// If nothing can end ctx but its deadline, and the driver obeys that, f runs on the caller's goroutine: two switches of
// goroutines take as long as Redis does.
func (cs *calls[T]) within(ctx context.Context, limits limits, f func(context.Context) T) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	if deadline, timed := ctx.Deadline(); limits.obeyed && (timed || ctx.Done() == nil) {
		if !timed || time.Until(deadline) > limits.most {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limits.most)
			defer cancel()
		}
		return f(ctx), nil
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	c, ok := cs.idle.Get().(*call[T])
	if !ok {
		c = newCall[T]()
	}
	c.timer.Reset(limits.most)
	go c.run(bound, f)
	select {
	case o := <-c.done:
		c.timer.Stop()
		cs.idle.Put(c)
		return o.result()
	case <-ctx.Done():
		c.timer.Stop() // f is still at it: c is not used again
		return answer, ctx.Err()
	case <-limits.closing:
		c.timer.Stop()
		return answer, ErrClosed
	case <-c.timer.C:
		return answer, fmt.Errorf("%w within %v", errNoAnswer, limits.most)
	}
}

type call[T any] struct {
	done  chan outcome[T] // one slot
	timer *time.Timer
}

type outcome[T any] struct {
	answer   T
	returned bool
	panicked any // nil after runtime.Goexit
}

func (o outcome[T]) result() (T, error) {
	if o.panicked != nil {
		panic(o.panicked)
	}
	if !o.returned {
		return o.answer, errors.New("the driver has ended its goroutine")
	}
	return o.answer, nil
}

func newCall[T any]() *call[T] {
	c := &call[T]{done: make(chan outcome[T], 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

func (c *call[T]) run(ctx context.Context, f func(context.Context) T) {
	var o outcome[T]
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
