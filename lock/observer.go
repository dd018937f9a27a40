package lock

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Observer is told what happens to leases, for metrics and audits. Funcs that are nil cost nothing. The others
// are called one after the other on a goroutine of the Locker's, soon after the event: a slow one delays no
// lease, a panic in one is contained, and of what one that is stuck doesn't take more than 4096 events is dropped.
// Close waits for them, but for a second only. Don't change an Observer once it is in use.
type Observer struct {
	Acquired    func(Event) // a lease is handed out by Acquire, AcquireAll, Do or Resume
	Waiting     func(Event) // an acquire begins to wait for another holder
	Held        func(Event) // an acquire that doesn't wait found another holder
	Renewed     func(Event) // also by Lease.Renew
	RenewFailed func(Event) // the store did not answer, or could not decide; the lease goes on to its deadline
	Lost        func(Event) // a lease is over that was not released
	Released    func(Event) // by Release, Do or Close
	Broken      func(Event) // somebody's lease was ended by Break; Claim is the one that supersedes it
}

// Event is what an Observer is told. Fields that its comments don't name for an event are zero.
type Event struct {
	At       time.Time
	Claim    fence.Claim   // for Waiting and Held the resource alone
	Waited   time.Duration // Acquired, Held: since the call
	Deadline time.Time     // Acquired, Renewed, RenewFailed
	Late     time.Duration // Lost: since the deadline; 0 if it was lost before
	Err      error         // Held, RenewFailed, Lost: why; Released: nil, or why the store may still have the lease
}

// WithObserver sets who is told what happens to leases. nil: nobody, the default.
func WithObserver(o *Observer) Option { return func(c *config) { c.observer = o } }

// observe calls the hook of o that which picks, if there is one.
func (l *Locker) observe(o *Observer, which func(*Observer) func(Event), e Event) {
	if o == nil {
		return
	}
	hook := which(o)
	if hook == nil {
		return
	}
	e.At = time.Now()
	l.events.post(func() { hook(e) })
}

func acquired(o *Observer) func(Event)    { return o.Acquired }
func waiting(o *Observer) func(Event)     { return o.Waiting }
func heldBack(o *Observer) func(Event)    { return o.Held }
func renewed(o *Observer) func(Event)     { return o.Renewed }
func renewFailed(o *Observer) func(Event) { return o.RenewFailed }
func lost(o *Observer) func(Event)        { return o.Lost }
func released(o *Observer) func(Event)    { return o.Released }
func broken(o *Observer) func(Event)      { return o.Broken }
