package lock

import (
	"context"
	"math/rand/v2"
	"time"
)

// within returns what f returns, or the error of ctx once ctx ends, or ErrClosed once closing is closed,
// whether f has come back or not: a client may look at its own timeouts only (go-redis by default), and
// a caller's deadline must hold all the same. A late f ends by itself; its answer is dropped.
func within[T any](ctx context.Context, closing <-chan struct{}, f func(context.Context) T) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	answer := make(chan T, 1)
	go func() { answer <- f(ctx) }()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-closing:
		return none, ErrClosed
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
