// Package lock issues leases: one holder at a time for a resource, for a time, under a fencing token
// that only grows.
//
//	locker, err := lock.New(redislock.New(rdb))
//	...
//	lease, err := locker.Acquire(ctx, "auction/7")
//	...
//	defer lease.Release(ctx)
//	err = auctions.Update(lease.Context(), lease.Claim(), "7", pgguard.Set{"bid": 120})
//
// # What a lease promises, and what it can't
//
// For a process that is running, and a store clock that neither steps nor changes by failover, a lease
// is over for its holder before the next holder gets in: its deadline is counted from the moment the
// request was sent, less a margin of 1 % (at least 5 ms), and [Lease.Context] ends there, also while a
// renewal hangs.
//
// A process that does not run - a long GC, a stopped VM, a suspended laptop - can't notice anything,
// and a request it sent before may arrive after. No lock can prevent that. Give the lease's claim to
// a guard (package guard) at the protected data; the guard refuses what is stale.
//
// # Renewal
//
// A lease renews itself until it is released. One that is neither released nor created
// [WithoutRenewal] renews for ever, as long as the process runs: defer its Release, or use
// [Locker.Do]. One failed renewal ends nothing; it is retried until the deadline. A lost lease never
// revives.
//
// # Seals
//
// With [WithSeal] the claim is admitted by a guard before the lease is handed out. From then on the
// former holder is shut out, and what is read under the lease can't be changed by it any more.
//
// # Errors
//
// [ErrHeld], [ErrUnavailable], [ErrLost], [ErrReleased], [ErrClosed] and the errors of an ended context
// are told apart by [errors.Is]; an error matches one of them, never two, but that a lease ended by
// [Locker.Close] is both released and closed. Bad arguments are errors that wrap [fence.ErrInvalid];
// nothing was sent then.
//
// # Clocks
//
// TTLs are whole milliseconds. Deadlines are judged by the monotonic clock and by the wall clock, and
// both must say that the lease is valid: a wall clock that is set forward can end a lease early; one
// that is set back never prolongs it.
//
// Lockers and leases are safe for concurrent use.
package lock
