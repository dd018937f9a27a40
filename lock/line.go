package lock

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/lock/driver"
)

// lingerFor is how long a subscription outlives the last who stood in line.
const lingerFor = 10 * time.Second

// line is those of a Locker that wait for a turn: one subscription for all resources.
type line struct {
	listener uuid.UUID

	mu        sync.Mutex
	waiters   map[uuid.UUID]*waiter // by holder
	inLine    int                   // of them, those that have a place
	listening bool                  // there is a goroutine that keeps the subscription
	ready     bool                  // it is up
	end       context.CancelFunc    // ends it
	since     time.Time             // when the last in line has left
	linger    *time.Timer           // runs from then
}

func (n *line) add(w *waiter, holder uuid.UUID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.holder = holder
	n.waiters[holder] = w
}

func (n *line) remove(w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiters, w.holder)
	if w.inLine {
		n.inLine--
		if n.inLine == 0 {
			n.since = time.Now()
			n.linger.Reset(lingerFor)
		}
	}
	w.holder, w.inLine, w.unread = uuid.Nil, false, false
}

// listen sees to it that the waiter, that has a place now, is told of its turn.
func (n *line) listen(l *Locker, w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !w.inLine {
		w.inLine = true
		n.inLine++
		if w.wake == nil {
			w.wake = make(chan struct{}, 1)
		}
		w.rouse()
	}
	if n.listening {
		return
	}
	n.listening = true
	n.linger = time.AfterFunc(lingerFor, n.endIfEmpty)
	l.tasks.begin()
	go func() {
		defer l.tasks.end()
		n.keepListening(l)
	}()
}

// keepListening subscribes, and again whenever that ends, until nobody has been in line for a while.
func (n *line) keepListening(l *Locker) {
	for failures := 0; ; failures++ {
		ctx, ok := n.begin(l)
		if !ok {
			return
		}
		started := time.Now()
		_ = l.driver.(driver.Waiter).Listen(ctx, n.listener, n.up, n.tell) // the waiters poll meanwhile
		n.down()
		if time.Since(started) > mostRetry {
			failures = 0
		}
		_ = l.sleep(l.closing, backoff(failures, firstRetry, mostRetry))
	}
}

func (n *line) begin(l *Locker) (ctx context.Context, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closing.Err() != nil || n.inLine == 0 && time.Since(n.since) >= lingerFor {
		n.linger.Stop()
		n.listening = false
		return nil, false
	}
	ctx, n.end = context.WithCancel(l.closing)
	return ctx, true
}

// up tells all that there is a new subscription.
func (n *line) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = true
	for _, w := range n.waiters {
		if !w.unread { // also if the answer that gives it a place is still on its way
			w.hear(message{anew: true})
		}
	}
}

func (n *line) down() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = false
	n.end()
}

func (n *line) endIfEmpty() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inLine == 0 && n.end != nil {
		n.end()
	}
}

// tell passes a turn on to whom it is for. Who has gone meanwhile has left the line, or will.
func (n *line) tell(t driver.Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.waiters[t.Holder]; ok {
		w.hear(message{turn: t})
	}
}

func (n *line) heard(w *waiter) message {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.unread = false
	return w.said
}

func (n *line) isReady() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}
