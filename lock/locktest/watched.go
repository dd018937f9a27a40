package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
)

// watched is a driver with a line, and nothing else, that tells when somebody joins it.
type watched struct {
	driver.Driver
	driver.Waiter
	waits  atomic.Int64
	joined chan struct{} // one for each who gets its first place
	onJoin func()        // before the joiner knows; nil: nothing
}

func (s *suite) watched() *watched {
	return &watched{Driver: s.d, Waiter: s.d.(driver.Waiter), joined: make(chan struct{}, 100)}
}

// Wait implements driver.Waiter.
func (w *watched) Wait(ctx context.Context, r driver.Request, p driver.Place) (driver.Grant, error) {
	w.waits.Add(1)
	g, err := w.Waiter.Wait(ctx, r, p)
	var queued *driver.Queued
	if errors.As(err, &queued) && p.Ticket == 0 {
		if w.onJoin != nil {
			w.onJoin()
		}
		w.joined <- struct{}{}
	}
	return g, err
}

// acquiring is an Acquire under way.
type acquiring struct {
	lease chan *lock.Lease // nil after an error
	at    time.Time        // when it returned
	err   error
}

// inLine has l acquire, and returns when it stands in line.
func (s *suite) inLine(ctx context.Context, l *lock.Locker, w *watched, opts ...lock.Option) *acquiring {
	s.Helper()
	a := &acquiring{lease: make(chan *lock.Lease, 1)}
	go func() {
		lease, err := l.Acquire(ctx, s.resource, opts...)
		a.at, a.err = time.Now(), err
		a.lease <- lease
	}()
	select {
	case <-w.joined:
	case lease := <-a.lease:
		require.Fail(s, "it does not wait", "%v, %v", lease, a.err)
	case <-s.ctx.Done():
		require.Fail(s, "it does not get a place in line")
	}
	return a
}

// settle lets those in line get subscribed: they ask once more then. The next time would be after a second.
func (s *suite) settle() {
	s.Helper()
	s.pass(300 * time.Millisecond)
}

// requireLease waits for the lease.
func (s *suite) requireLease(a *acquiring) *lock.Lease {
	s.Helper()
	lease := s.end(a)
	require.NoError(s, a.err)
	return lease
}

func (s *suite) end(a *acquiring) *lock.Lease {
	s.Helper()
	select {
	case lease := <-a.lease:
		return lease
	case <-s.ctx.Done():
		require.Fail(s, "it waits still")
		return nil
	}
}

// requireWithin says that a was granted at most that much after since.
func (s *suite) requireWithin(most time.Duration, since time.Time, a *acquiring) *lock.Lease {
	s.Helper()
	lease := s.requireLease(a)
	assert.Less(s, a.at.Sub(since), most)
	return lease
}
