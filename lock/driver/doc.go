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
//     the loss of idle state (L17, C29, C32).
//  5. Renew and Release compare the stored holder with the claim's. Not equal, or no lease: [ErrLost],
//     and nothing is touched (L02). Renew never creates a lease.
//  6. Release with token 0 abandons an acquire whose answer nobody saw (L04). If the holder has the
//     lease, it ends. The request, or a replay of it, may still be on its way: the driver leaves a
//     tombstone for the holder, for at least [AbandonFor], and an Acquire of that holder that finds
//     its tombstone fails without taking the resource. Either way it returns nil.
//  7. "Could not decide" is never Held and never success (L15): an unreachable store, a store that
//     starts up or is read-only, a refused permission, an answer that makes no sense.
//  8. A TTL that the store can't represent is rounded up (L14).
//  9. The resource's name reaches no other resource's state, whatever characters it has (L16).
//
// A call that is given an ended context sends nothing and returns the context's error. A driver should
// return soon after its context ends; package lock does not wait for one that doesn't, but the call
// must end by itself in the end.
package driver

import "time"

// AbandonFor is how long the tombstone of an abandoned acquire stays at least. A request that was
// sent before the tombstone and arrives later than this has spent a minute in the network.
const AbandonFor = time.Minute
