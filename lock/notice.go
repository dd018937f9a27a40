package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// mostNotices is how many may wait for the user's code to take them; what is more is dropped.
const mostNotices = 4096

// notices calls code of the user's that must not hold up the lock: a log handler, an observer. It may block,
// panic or use the lock. Calls come one after the other, in order, on a goroutine that ends when there are
// none.
type notices struct {
	over    context.Context // ends with the Locker: what is left then is dropped
	mu      sync.Mutex
	pending []func()
	running chan struct{} // closed when the goroutine ends; nil: there is none
}

// waitFor is how long a Close waits for the user's code. It may be called by that code.
const waitFor = time.Second

func (n *notices) wait(ctx context.Context) {
	n.mu.Lock()
	running := n.running
	n.mu.Unlock()
	if running == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	select {
	case <-running:
	case <-ctx.Done():
	}
}

func (n *notices) post(call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) >= mostNotices {
		return
	}
	n.pending = append(n.pending, call)
	n.run()
}

// run starts the goroutine if it is needed. n.mu is held.
func (n *notices) run() {
	if n.running != nil || len(n.pending) == 0 {
		return
	}
	ended := make(chan struct{})
	n.running = ended
	go func() {
		defer func() {
			_ = recover()
			n.mu.Lock()
			defer n.mu.Unlock()
			n.running = nil
			n.run() // what a panic has left
			close(ended)
		}()
		for {
			n.mu.Lock()
			if len(n.pending) == 0 || n.over.Err() != nil {
				n.pending = nil
				n.mu.Unlock()
				return
			}
			call := n.pending[0]
			n.pending = n.pending[1:]
			n.mu.Unlock()
			call()
		}
	}()
}

// warn logs. log may be nil.
func (l *Locker) warn(log *slog.Logger, message string, args ...any) {
	if log != nil {
		l.logs.post(func() { log.Warn(message, args...) })
	}
}
