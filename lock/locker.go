package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Locker hands out leases from one store. Use New. Safe for concurrent use.
//
// One timer renews all leases and watches their deadlines, for as long as there are any; one subscription tells
// all that wait of their turns, for as long as there are any. Close ends what is left.
type Locker struct {
	driver    driver.Driver
	defaults  config
	clock     *clock
	obeyed    bool          // the driver obeys deadlines
	slowAfter time.Duration // see isSlow

	closing        context.Context // ends when Close begins: no more waiting, no more leases
	beginClosing   context.CancelFunc
	background     context.Context // ends when Close returns
	endAll         context.CancelFunc
	tasks          tasks
	cleanups       atomic.Int64
	longCallsUntil atomic.Int64 // in Unix ns
	cleanupSlots   chan struct{}
	logs, events   notices
	calls          sync.Pool // of *call, our own: a channel made in a synctest bubble must stay there
	batches        sync.Pool // of *batch
	line           line

	mu     sync.Mutex // guards the fields below, and what changes in the leases
	closed bool
	leases leaseHeap   // all that are held
	timer  *time.Timer // runs watch
	armed  time.Time   // when it does; zero: it is not set
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
		driver: d, defaults: c, slowAfter: slowAnswer,
		clock:        systemClock(),
		cleanupSlots: make(chan struct{}, cleanupsAtOnce),
		line:         line{listener: uuid.New(), waiters: make(map[uuid.UUID]*waiter)},
	}
	f := d.Features()
	l.obeyed = f.ObeysDeadline
	if f.RepeatsAfter > 0 {
		l.slowAfter = min(slowAnswer, f.RepeatsAfter)
	}
	l.closing, l.beginClosing = context.WithCancel(context.Background())
	l.background, l.endAll = context.WithCancel(context.Background())
	l.logs.over, l.events.over = l.background, l.background
	return l, nil
}

// Close ends waiting acquires with [ErrClosed], releases the leases that are still held and waits
// until that is done and background work has ended, or until ctx ends; and up to a second for a logger and
// observers to take what there is for them. It returns the errors of
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
	for _, le := range held { // all at once: the end of one must not end the others of its set in another way
		le.end = fmt.Errorf("%w: %q: %w", ErrReleased, le.claim.Resource, ErrClosed)
		l.leases.remove(le)
	}
	l.mu.Unlock()
	defer l.endAll()
	l.beginClosing()
	for _, le := range held {
		le.cancel(&causeError{le.end})
	}
	failed := concurrently(held, func(le *Lease) error { return le.release(ctx) })
	ended := l.tasks.wait(ctx)
	l.logs.wait(ctx)
	l.events.wait(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	return errors.Join(failed, ended)
}

// releasesAtOnce is how many of many leases are released at one time.
const releasesAtOnce = 32

// concurrently calls release for all leases and returns its errors, joined in the order of the leases.
func concurrently(leases []*Lease, release func(*Lease) error) error {
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, releasesAtOnce)
		errs  = make([]error, len(leases))
	)
	for i, le := range leases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = release(le)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
