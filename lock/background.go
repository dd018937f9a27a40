package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// cleanupFor bounds the background attempts to end what nobody holds any more.
	cleanupFor = 10 * time.Second
	// maxCleanups bounds how many of them go on at once; what is more is left to its TTL.
	maxCleanups = 256
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
	select {
	case l.cleanupSlots <- struct{}{}:
	default:
		l.defaults.log.Warn("too many clean-ups at once: a lease is left to its TTL", "resource", resource)
		return
	}
	l.tasks.begin()
	go func() {
		defer l.tasks.end()
		defer func() { <-l.cleanupSlots }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupFor)
		defer cancel()
		defer context.AfterFunc(l.background, cancel)() //nolint:contextcheck // ends with the Locker too
		for n := 0; ; n++ {
			err, ended := within(ctx, nil, end)
			if ended == nil && (err == nil || errors.Is(err, ErrLost)) {
				return
			}
			pause := time.NewTimer(backoff(n, firstRetry, mostRetry))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				l.defaults.log.Warn("clean-up failed: a lease is left to its TTL", "resource", resource, "error", err)
				return
			}
		}
	}()
}
