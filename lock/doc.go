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
// # Waiting
//
// [Locker.Acquire] waits its turn: first come, first served, among all processes, if the store keeps a queue
// ([driver.Waiter]); without one it tries again every 25 to 250 ms, in no order. Who is next is told so the moment that
// the lease is released; no message is relied on, each waiter also asks once a second. While the messages don't come,
// for want of a subscription, the first two in line ask five to ten times a second. A waiter that died costs those
// behind it a quarter of a second, once. A waiter whose context ends leaves the line at once. The others hear of a
// lease that expires without a word by its remaining time, which they know: one that is short, and renewed all the time,
// makes the first in line ask as often as it would have ended.
//
// [WithoutWaiting] and [Locker.TryAcquire] don't wait, and never jump the queue. [Locker.AcquireAll] takes several
// resources, in one order for everybody.
//
// # Renewal
//
// A lease renews itself until it is released. One that is neither released, nor detached, nor created
// [WithoutRenewal] renews for ever, as long as the process runs: defer its Release, or use
// [Locker.Do]. One failed renewal ends nothing; it is retried until the deadline. A lost lease never
// revives.
//
// # Between processes
//
// [Lease.Detach] leaves a lease to itself, and [Locker.Resume] takes it over by its claim in another request or process:
// a seat that is held for ten minutes across page loads and deploys. The claim's holder is the key to the lease: let it
// travel as [fence.Keyring.Encode] has it.
//
// # Seals
//
// With [WithSeal] the claim is admitted by a guard before the lease is handed out. From then on the
// former holder is shut out, and what is read under the lease can't be changed by it any more. If the store's tokens have
// fallen behind the guard's mark, after a loss of data, the seal lifts them; [Locker.Raise] does it by hand.
//
// # Errors
//
// [ErrHeld], [ErrUnavailable], [ErrLost], [ErrReleased], [ErrClosed], [ErrExhausted] and the errors of an ended context
// are told apart by [errors.Is]; an error matches one of them, never two, but that a lease ended by
// [Locker.Close] is both released and closed. Bad arguments are errors that wrap [fence.ErrInvalid];
// nothing was sent then. What a store can't do is [errors.ErrUnsupported].
//
// # Clocks
//
// TTLs are whole milliseconds. Whether a lease is over is judged by the store's clock for others, and by this machine's
// for its holder: on Linux by the clock that goes on in suspend (CLOCK_BOOTTIME), so that a lease ends while the machine
// sleeps; elsewhere by the monotonic clock, and each step of the wall clock ahead counts as a sleep. A wall clock that is
// set back never prolongs a lease. A pause of the whole virtual machine shows on no clock: that is what the guard is for.
// [Lease.Err] and [Lease.Deadline] look at the clocks when they are called; [Lease.Context] ends up to a second after
// the machine wakes.
//
// # Goroutines
//
// A Locker has none while nothing happens. All its leases together have one timer, whose goroutine sends renewals in
// batches; all that wait have one subscription, with one goroutine, until 10 s after the last of them. Each call of the
// driver runs on a goroutine of its own, so that a client that ignores contexts can't hold a caller; if the driver obeys
// deadlines ([driver.Features]), on the caller's for the first 250 ms, for so long a cancellation may go unnoticed. All end
// with [Locker.Close], but for a call that its client does not end.
//
// Lockers and leases are safe for concurrent use.
package lock
