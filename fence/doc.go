// Package fence is the vocabulary of Ringfence: the fencing token, the claim that carries it with a
// write, and the verdicts of the guard that checks it.
//
// # The guarantee
//
// Once a guard has admitted token t for a resource, no write that carries a token below t, and no
// write that carries t from another holder, takes effect on that resource. It holds whatever the
// pauses, clocks, networks, restarts and failovers on the lock's side. A lock store that is wrong
// (lost data, split brain, clock jumps) can cost availability - a fresh holder is refused until
// tokens catch up - never safety.
//
// # What a user must know
//
//  1. Admit before you read. A decision is protected only if what it was based on was read after its
//     claim was admitted (a sealed lease, or inside a guard's transaction), or if the condition is in
//     the write's own WHERE. Otherwise: B (token 34) reads 100; the paused A (33) writes 120 and is
//     accepted, for 34 was never admitted; B writes 110 and the 120 is lost.
//  2. One mark per resource. Either the row carries the mark (a fence column) or the guard's own
//     table does; never both for one resource, and one resource is one thing.
//  3. The mark is as durable as the data. It lives in the same store, transaction, replication and
//     backup. Losing acknowledged commits loses marks too.
//  4. Fencing does not order the writes of one holder among themselves.
//
// # Claims that leave the house
//
// A claim that a client keeps - in a cookie between two requests, in a queue, in the headers of a
// request to a storage service - comes back from somebody who may have changed it. A [Keyring] signs
// it, with an expiry, and tells: [Keyring.Encode] and [Keyring.Decode] for one text, [Keyring.Sign]
// and [Keyring.Verify] for a signature beside the claim. What is signed is not hidden: the holder in
// it is the key to the lease, so the text is to be kept like a session id.
//
// The idea is the sequencer of Burrows, "The Chubby lock service for loosely-coupled distributed
// systems" (OSDI 2006), §2.4; the name "fencing token" is Kleppmann's ("How to do distributed
// locking", 2016).
//
// All values of this package are immutable and safe for concurrent use.
package fence
