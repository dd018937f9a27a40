package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// waiter is one who stands in line, by calls of the driver.
type waiter struct {
	*suite
	queue    driver.Waiter
	resource string
	holder   uuid.UUID
	listener uuid.UUID
	ticket   int64
	turns    chan driver.Turn // nil: it does not listen
}

// waiter returns one that has not asked yet, and doesn't listen.
func (s *suite) waiter() *waiter {
	return &waiter{
		suite: s, queue: s.d.(driver.Waiter), resource: s.resource,
		holder: uuid.New(), listener: uuid.New(),
	}
}

// line puts n in line, that don't listen. The resource is taken.
func (s *suite) line(n int) []*waiter {
	s.Helper()
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = s.waiter()
		ws[i].requireQueued(i)
	}
	return ws
}

// listeningLine puts n in line, of which each listens.
func (s *suite) listeningLine(n int) []*waiter {
	s.Helper()
	ws := make([]*waiter, n)
	for i := range ws {
		ws[i] = s.waiter()
		ws[i].listen()
		ws[i].requireQueued(i)
	}
	return ws
}

// wait asks once.
func (w *waiter) wait(overdue time.Duration) (driver.Grant, error) {
	w.Helper()
	g, err := w.queue.Wait(w.ctx, request(w.resource, w.holder, w.long),
		driver.Place{Listener: w.listener, Ticket: w.ticket, Overdue: overdue})
	var queued *driver.Queued
	if errors.As(err, &queued) {
		require.Positive(w, queued.Ticket)
		w.ticket = queued.Ticket
	}
	return g, err
}

// requireQueued asks, and says how many must be ahead. It returns what is left of what the resource is taken by.
func (w *waiter) requireQueued(ahead int) time.Duration {
	w.Helper()
	return w.requireQueuedAfter(0, ahead)
}

func (w *waiter) requireQueuedAfter(overdue time.Duration, ahead int) time.Duration {
	w.Helper()
	_, err := w.wait(overdue)
	var queued *driver.Queued
	require.ErrorAs(w, err, &queued)
	require.Equal(w, ahead, queued.Ahead)
	return queued.RetryAfter
}

// requireGranted asks, and must get the lease.
func (w *waiter) requireGranted() fence.Claim {
	w.Helper()
	return w.requireGrantedAfter(0)
}

func (w *waiter) requireGrantedAfter(overdue time.Duration) fence.Claim {
	w.Helper()
	g, err := w.wait(overdue)
	require.NoError(w, err)
	return w.claim(g)
}

func (w *waiter) claim(g driver.Grant) fence.Claim {
	w.Helper()
	require.Positive(w, int64(g.Token))
	return fence.Claim{Resource: w.resource, Token: g.Token, Holder: w.holder}
}

// waitForGrant asks again and again.
func (w *waiter) waitForGrant() fence.Claim {
	w.Helper()
	for {
		g, err := w.wait(0)
		var queued *driver.Queued
		if !errors.As(err, &queued) {
			require.NoError(w, err)
			return w.claim(g)
		}
		w.pass(5 * time.Millisecond)
	}
}

func (w *waiter) leave() {
	w.Helper()
	require.NoError(w, w.queue.Leave(w.ctx, w.resource, w.holder, w.listener))
}

// listen has the waiter hear what its listener is told, from when it returns to the end of the case.
func (w *waiter) listen() {
	w.Helper()
	w.turns = w.suite.listen(w.listener)
}

// requireTold says what the waiter must be told next.
func (w *waiter) requireTold(after time.Duration) {
	w.Helper()
	require.Equal(w, driver.Turn{Holder: w.holder, After: after}, w.hear(w.turns))
}

// listen returns what the listener is told until the end of the case.
func (s *suite) listen(listener uuid.UUID) chan driver.Turn {
	s.Helper()
	turns, ready, ended := make(chan driver.Turn, 100), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	go func() {
		ended <- s.d.(driver.Waiter).Listen(ctx, listener,
			sync.OnceFunc(func() { close(ready) }),
			func(t driver.Turn) {
				select {
				case turns <- t:
				default: // much more than a case is told
				}
			})
	}()
	s.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.Error(s, err)
		case <-time.After(10 * time.Second):
			assert.Fail(s, "it listens after the end of its context")
		}
	})
	select {
	case <-ready:
	case <-s.ctx.Done():
		require.Fail(s, "the listener is not ready")
	}
	return turns
}

// hear waits for what is told next.
func (s *suite) hear(turns chan driver.Turn) driver.Turn {
	s.Helper()
	select {
	case t := <-turns:
		return t
	case <-s.ctx.Done():
		require.Fail(s, "nothing was told")
		return driver.Turn{}
	}
}
