package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Locker hands out leases from one store. Use New. Safe for concurrent use.
//
// One goroutine renews all leases and watches their deadlines, for as long as there are any; Close
// ends what is left.
type Locker struct {
	driver   driver.Driver
	defaults config

	closing      context.Context // ends when Close begins: no more waiting, no more leases
	beginClosing context.CancelFunc
	background   context.Context // ends when Close returns
	endAll       context.CancelFunc
	tasks        tasks
	cleanups     atomic.Int64
	cleanupSlots chan struct{}
	warnings     chan struct{}

	wake chan struct{} // tells the watch that a lease is due sooner than it thinks

	mu       sync.Mutex // guards the fields below, and what changes in the leases
	closed   bool
	watching bool
	leases   leaseHeap // all that are held
}

// New returns a Locker on a store. The options are the defaults of each call; an invalid one is an
// error that wraps [fence.ErrInvalid] and names it. New does not contact the store.
func New(d driver.Driver, opts ...Option) (*Locker, error) {
	if d == nil {
		return nil, fmt.Errorf("%w: lock.New(nil): want a driver", fence.ErrInvalid)
	}
	c, err := defaults().with(opts)
	if err != nil {
		return nil, err
	}
	l := &Locker{
		driver: d, defaults: c,
		cleanupSlots: make(chan struct{}, cleanupsAtOnce),
		warnings:     make(chan struct{}, mostWarnings),
		wake:         make(chan struct{}, 1),
	}
	l.closing, l.beginClosing = context.WithCancel(context.Background())
	l.background, l.endAll = context.WithCancel(context.Background())
	return l, nil
}

// Close ends waiting acquires with [ErrClosed], releases the leases that are still held and waits
// until that is done and background work has ended, or until ctx ends. It returns the errors of
// releases that failed, joined with ctx's error if that came first; those leases end by their TTL.
// It does not close the driver's client. A second Close returns [ErrClosed].
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	held := l.leases.all()
	l.mu.Unlock()
	defer l.endAll()
	l.beginClosing()

	var open []*Lease
	for _, le := range held {
		if first, _ := le.finish(fmt.Errorf("%w: %q: %w", ErrReleased, le.claim.Resource, ErrClosed)); !first {
			continue // released or lost meanwhile
		}
		open = append(open, le)
	}
	var (
		mu     sync.Mutex
		failed []error
		slots  = make(chan struct{}, closeAtOnce)
	)
	for _, le := range open {
		slots <- struct{}{}
		l.tasks.begin()
		go func() {
			defer l.tasks.end()
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, releaseWithin)
			defer cancel()
			if err := le.release(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		}()
	}
	ended := l.tasks.wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(append(failed, ended)...)
}

// closeAtOnce is how many releases a Close has under way.
const closeAtOnce = 32
