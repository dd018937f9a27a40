package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Waiter is a store that keeps those who wait for a resource in line.
type Waiter interface {
	// Wait makes one try and does not block. It returns the grant if it is the caller's turn, a *[Queued]
	// if it is not, or any other error if the store could not decide or its answer was lost. A caller that
	// gives up calls Leave.
	Wait(ctx context.Context, r Request, p Place) (Grant, error)
	// Leave gives up what holder got by Wait: the lease, the turn, or the place in line, and leaves a
	// tombstone for what may be on its way, as Release with token 0 does (protocol, step 6).
	Leave(ctx context.Context, resource string, holder, listener uuid.UUID) error
	// Listen calls turn for what is told to the listener, from when it calls ready until ctx ends or
	// the connection is lost; it returns why it ended, never nil. turn and ready don't block.
	Listen(ctx context.Context, listener uuid.UUID, ready func(), turn func(Turn)) error
}

// Place is where in line a waiter stands.
type Place struct {
	Listener uuid.UUID     // who is told of the turn, see [Waiter.Listen]
	Ticket   int64         // what Queued said before; 0: the waiter is new
	Overdue  time.Duration // for how long, by all the waiter knows, nobody has had the resource; 0: it doesn't know; never negative
}

// Turn tells a waiter to call Wait, now or if it is still waiting after a while.
type Turn struct {
	Holder uuid.UUID     // of the waiter's Request
	After  time.Duration // 0: it has the turn. n TurnFor: n others are first
}

// Queued says that a waiter has a place in line.
type Queued struct {
	Ticket     int64         // above 0: keeps the place, see [Place]
	Ahead      int           // waiters before this one
	RetryAfter time.Duration // what is left of the lease, or of another's turn; 0: unknown
}

// Error says how many are ahead.
func (q *Queued) Error() string { return fmt.Sprintf("lock: queued, %d ahead", q.Ahead) }
