package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// cleanupFor bounds the background attempts to end what nobody holds any more, cleanupTry one of them.
	cleanupFor, cleanupTry = 10 * time.Second, 2 * time.Second
	// cleanupsAtOnce is how many calls they have under way.
	cleanupsAtOnce = 64
	// mostCleanups is how many may wait; what is more is left to its TTL.
	mostCleanups = 10_000
)

// tasks counts what a Close waits for. Unlike a sync.WaitGroup it may grow while it is waited for.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed and nil again at n = 0; nil: nobody waits
}

func (t *tasks) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// wait returns nil once there are no tasks, or ctx's error.
func (t *tasks) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inBackground calls end until it returns nil or ErrLost, for a bounded time. Of ctx it keeps the values.
func (l *Locker) inBackground(ctx context.Context, resource string, end func(context.Context) error) {
	if l.cleanups.Add(1) > mostCleanups {
		l.cleanups.Add(-1)
		l.warn(l.defaults.log, "too many clean-ups wait: a lease is left to its TTL", "resource", resource)
		return
	}
	l.tasks.begin()
	go func() {
		defer l.tasks.end()
		defer l.cleanups.Add(-1)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupFor)
		defer cancel()
		defer context.AfterFunc(l.background, cancel)() //nolint:contextcheck // ends with the Locker too
		for n := 0; ; n++ {
			err := l.cleanUp(ctx, end)
			if err == nil || errors.Is(err, ErrLost) {
				return
			}
			pause := time.NewTimer(backoff(n, firstRetry, mostRetry))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				l.warn(l.defaults.log, "clean-up failed: a lease is left to its TTL", "resource", resource, "error", err)
				return
			}
		}
	}()
}

// cleanUp calls end once, when its turn has come.
func (l *Locker) cleanUp(ctx context.Context, end func(context.Context) error) error {
	select {
	case l.cleanupSlots <- struct{}{}:
		defer func() { <-l.cleanupSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.ends(ctx, limits{most: cleanupTry}, end)
}

// ends makes a call that answers with an error only, or with what cut it short.
func (l *Locker) ends(ctx context.Context, limits limits, end func(context.Context) error) error {
	a, cut := l.call(ctx, limits, func(ctx context.Context) answer { return answer{err: end(ctx)} })
	if cut != nil {
		return cut
	}
	return a.err
}
