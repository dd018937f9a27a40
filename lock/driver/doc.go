// Package driver is the contract between package lock and a lock store.
//
// A driver is small on purpose. Waiting, retry, renewal, deadlines and loss are written once, in
// package lock; a driver only makes single tries. Package memlock is the reference to read, package
// locktest the judge.
//
// # The protocol
//
// The store keeps for each resource at most one lease (holder, token, expiry, label) and a source of
// tokens.
//
//  1. Acquire on a free resource stores the lease and takes the next token in one atomic step and one
//     round trip (L01). Whatever can fail comes before the lease is stored: an Acquire that returns an
//     error because the store refused it leaves nothing behind.
//  2. Acquire on a resource that the same holder has already is a replay of a request whose answer was
//     lost. It returns the token that is stored with the lease, not a new one, and never Held (L03).
//  3. Acquire on a resource that another holder has returns *Held and changes nothing. Whether a lease
//     is over is judged by the store's clock alone, never by the caller's (C14).
//  4. Tokens of a resource rise strictly in the order of grants, also across releases, expiries, and
//     the loss of idle state (L17, C29, C32). If there is none left, [ErrExhausted].
//  5. Renew and Release compare the stored holder with the claim's. Not equal, or no lease: [ErrLost],
//     and nothing is touched (L02). Renew never creates a lease.
//  6. Release with token 0 abandons an acquire whose answer nobody saw (L04). If the holder has the
//     lease, it ends, whatever keep says. The request, or a replay of it, may still be on its way: the
//     driver leaves a tombstone for the holder, for at least [AbandonFor], and an Acquire of that holder
//     (and a Wait, Resume or Break, see below) that finds its tombstone fails without taking the resource or
//     a place in line. Either way it returns nil.
//  7. "Could not decide" is never Held and never success (L15): an unreachable store, a store that
//     starts up or is read-only, a refused permission, an answer that makes no sense.
//  8. A TTL that the store can't represent is rounded up (L14).
//  9. The resource's name reaches no other resource's state, whatever characters it has (L16).
//
// A call that is given an ended context sends nothing and returns the context's error. A driver should
// return soon after its context ends; package lock does not wait for one that doesn't, but the call
// must end by itself in the end.
//
// # The queue
//
// A store that can keep waiters in order implements [Waiter].
//
//  10. Wait is Acquire for a caller who stands in line. It is granted if the resource is free and nobody
//     is ahead, or if the caller has the turn. Else the caller gets a place, or keeps the one it has,
//     and the answer is *[Queued].
//  11. While there are waiters a resource that gets free is not free for all: the first in line has the
//     turn, for [TurnFor]. It leaves the line with that. Nobody else can acquire meanwhile (L10).
//  12. The turn is given by what ends a lease, and by any Acquire or Wait that finds the resource free
//     and somebody ahead of it: a lease may end with nobody there to tell. Whoever gives it tells the
//     listener of the one who has it, and lets those behind stand by: theirs would be the turn after
//     that (L11, L12).
//  13. A Wait says for how long, by what it knows, the resource must have been free. Each whole turn of
//     that silence is one that was missed by somebody ahead, who is passed over; the next turn has begun
//     after them, and ends the sooner.
//  14. Who asks again with its ticket has its old place, though the store forgot or passed over it. What
//     the dead leave in the queue goes away by itself. Who gives up calls Leave: it gives the turn on, if
//     it has it.
//
// # The rest
//
// [Resumer], [Raiser], [Breaker] and [Inspector] are optional, too: package lock finds them by type
// assertion, and returns [errors.ErrUnsupported] for what a driver doesn't have. New abilities will be new
// interfaces.
package driver

import "time"

// AbandonFor is how long the tombstone of an abandoned acquire stays at least. A request that was
// sent before the tombstone and arrives later than this has spent a minute in the network.
const AbandonFor = time.Minute

// TurnFor is how long the first in line has the resource for itself, once it is free.
const TurnFor = 250 * time.Millisecond
