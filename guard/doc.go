// Package guard is the protected side of Ringfence: what refuses a writer whose token is no longer
// the newest.
//
// # Why the check must be where the write is
//
// A holder can be paused between any check and its write: a long GC, a stopped VM, a slow network.
// Whatever it asked the lock before the pause is out of date after it. Only the store that applies
// the write can compare tokens and write in one step. A guard therefore lives next to the protected
// data, keeps a mark per resource - the newest token admitted, and its holder - and checks and raises
// it atomically with the write.
//
// # The rule
//
//	admitted  ⇔  mark.token < claim.token
//	          or (mark.token = claim.token and mark.holder = claim.holder and the holder is not zero)
//
// The first half alone is the once rule: one write per token. Both halves are the full rule: one
// holder writes many times under one lease, and another holder that was handed the same number (an
// asynchronous failover of the lock store can do that) is still refused. See [Mark.Judge].
//
// # What a user must know
//
//  1. Admit before you read. A decision is protected only if what it was based on was read after its
//     claim was admitted (a sealed lease, or inside the guard's transaction), or if the condition is
//     in the write's own WHERE.
//  2. One mark per resource. Either the row carries the mark (a fence column) or the guard's own
//     table does; never both for one resource, and one resource is one thing.
//  3. The mark is as durable as the data. It lives in the same store, transaction, replication and
//     backup. Losing acknowledged commits loses marks too.
//  4. Fencing does not order the writes of one holder among themselves.
//
// # Which guard
//
// Package pgguard guards PostgreSQL through pgx, package sqlguard SQLite through database/sql, and
// package memguard data that lives in this process. Package guardtest is the conformance suite that
// each of them passes.
package guard
