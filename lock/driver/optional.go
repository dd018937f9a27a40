package driver

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Resumer is a store that can hand a lease to another holder.
type Resumer interface {
	// Resume makes the lease of c one of r.Holder with r.Label and the next token, in one atomic step. A
	// TTL above 0 sets its end, in whole milliseconds from now; with 0 it stays. Grant.TTL is what is left.
	// If the lease isn't exactly c's, holder and token, it returns an error that wraps [ErrLost] and
	// changes nothing. If r.Holder has the lease already, this is a replay: as for Acquire. It leaves a tombstone
	// for c's holder (protocol, step 6): a copy of its acquire may still be on its way.
	Resume(ctx context.Context, c fence.Claim, r Request) (Grant, error)
}

// Raiser is a store whose tokens can be lifted, in case they have fallen behind a guard's mark.
type Raiser interface {
	// Raise makes all later tokens of the resource larger than past. It never lowers anything.
	// [ErrExhausted] if there is no larger one.
	Raise(ctx context.Context, resource string, past fence.Token) error
	// Advance gives the lease of c a new token that is larger than past and than every token before, in
	// one atomic step, and returns it. If c's holder has no lease any more, the error wraps [ErrLost]; if
	// it has one with another token than c's, that is larger than past, this is a replay and the stored
	// token is the answer. [ErrExhausted] if there is no larger one.
	Advance(ctx context.Context, c fence.Claim, past fence.Token) (fence.Token, error)
}

// Breaker is a store from which a lease can be taken by force.
type Breaker interface {
	// Break is Acquire for r.Holder, whoever has the resource or stands in line. With a fingerprint (see
	// [Info]) it does so only if that holder has the lease; else the error wraps [ErrLost] and
	// nothing is changed. If r.Holder has the lease already, this is a replay: as for Acquire.
	Break(ctx context.Context, r Request, fingerprint string) (Grant, error)
}

// Inspector is a store that tells who holds a resource.
type Inspector interface {
	Inspect(ctx context.Context, resource string) (Info, error)
}

// Info is what can be told about a resource.
type Info struct {
	Held      bool          // by a holder, or by a minimum hold that still runs
	Token     fence.Token   // of the lease; 0: none, or the lease of a program that knows no tokens
	Holder    string        // fingerprint of the holder, see [fence.Fingerprint]; "none": free, or kept by a minimum hold
	Label     string        // of the lease
	Remaining time.Duration // until the lease ends, by the store's clock; 0: unknown, or for ever
	Waiters   int           // in line, and whoever has the turn
}
