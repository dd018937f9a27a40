package driver

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
)

// Driver is what a lock store implements. See the package comment for the protocol.
// All methods are safe for concurrent use.
type Driver interface {
	// Acquire makes one try and does not wait. It returns the grant, a *[Held] if another holder has
	// the resource, or any other error if the store could not decide or its answer was lost.
	Acquire(ctx context.Context, r Request) (Grant, error)
	// Renew prolongs leases, in as few round trips as it can. The result has one entry for each
	// renewal, in their order: nil, an error that wraps [ErrLost] if the holder has no lease any
	// more, or any other error if the store could not decide. What it has not heard of when ctx ends is such an
	// error: it returns then, with what it knows of the others. It does not keep rs.
	Renew(ctx context.Context, rs []Renewal) []error
	// Release ends the lease of c's holder. With keep above 0 the resource stays taken, by nobody, for
	// that long. It returns nil, an error that wraps [ErrLost] if the holder has no lease any more, or
	// any other error if the store could not decide. A claim with token 0 is an abandoned acquire,
	// see the protocol.
	Release(ctx context.Context, c fence.Claim, keep time.Duration) error
	// Features says what the store can do.
	Features() Features
}

// Request is one try to acquire. The caller has validated it.
type Request struct {
	Resource string
	Holder   uuid.UUID     // fresh for this acquisition, never zero
	TTL      time.Duration // whole milliseconds, at least 20 ms
	Label    string        // free text for people: who holds; one line, may be empty
}

// Grant is an acquired lease.
type Grant struct {
	Token fence.Token   // above every token granted for the resource before
	TTL   time.Duration // what the store really gives, at least what was asked
}

// Renewal asks for the lease of Claim's holder to end TTL from now.
type Renewal struct {
	Claim   fence.Claim
	TTL     time.Duration // whole milliseconds, at least 20 ms
	Shorten bool          // false: a lease that has more than TTL left keeps it
}

// Features are a store's properties. The conformance suite chooses its cases by them.
type Features struct {
	// TTLStep is the grain of the store's TTLs: they are rounded up to a multiple. 0: one millisecond.
	TTLStep time.Duration
	// RepeatsAfter is when the client may send a request once more, for want of an answer. A copy of one that took longer
	// may still be on its way. 0: 250 ms; what is more counts as 250 ms, too.
	RepeatsAfter time.Duration
	// ObeysDeadline: each call, but for Listen and Renew, has ended soon after the deadline of its context, whatever the
	// store does. Package lock then makes it on its caller's goroutine, with a deadline of 250 ms; what takes longer
	// it makes once more, on a goroutine.
	ObeysDeadline bool
}
