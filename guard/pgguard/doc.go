// Package pgguard guards data in PostgreSQL, through pgx: no writer whose token is no longer the newest
// gets anything committed.
//
// # Two places for the mark
//
// In a table of its own, fence_marks, which [Migrate] creates: [Guard.InTx] runs any statements in a
// transaction to which a claim has been admitted. This is the primary way. The mark outlives the rows it
// protects.
//
//	err := g.InTx(ctx, lease.Claim(), func(tx pgx.Tx) error {
//		// read, decide, write
//	})
//
// Or in the row itself, in a column for the token: a [TableGuard], from [Guard.Table], writes one row
// with one statement.
//
//	err := auctions.Update(ctx, lease.Claim(), 7, pgguard.Set{"bid": 120})
//
// Use one of the two for a resource, never both: neither knows the other's mark.
//
// # What is checked when
//
// InTx sends BEGIN and the admission in one round trip, so it costs none more than a plain transaction;
// a TableGuard's write none more than a plain UPDATE. The admission locks the mark and raises it, in
// the transaction: an older writer that comes at the same time waits, and is refused if this one
// commits. What is read after it is up to date, at every isolation level. If the transaction is rolled
// back, the mark is where it was.
//
// A refusal is a *[fence.RejectedError], with the mark that it was refused by. The server raises it as
// an SQL error (RF001 stale, RF003 duplicate, RF004 replayed; the DETAIL is JSON), and writes it to its
// log as such: with the statement, which in pgx's simple protocol contains the refused holder.
//
// # What an error says about the data
//
//   - a *[fence.RejectedError], [fence.ErrInvalid], [fence.ErrNotFound]: nothing was written, and the
//     same call won't do it another time.
//   - [fence.ErrUnavailable]: nothing was written; another time it may be. Conflicts between
//     transactions (40001, 40P01), timeouts, a server that is full or that could not be reached.
//     InTx never runs its function again by itself; to do so is up to the caller.
//   - [fence.ErrOutcomeUnknown]: the COMMIT, or a statement that commits by itself, was sent, and its
//     answer lost: with the connection, by the end of the context, or because the server or a pooler
//     ended the session instead of answering. All of it was written, or nothing.
//   - anything else, as a constraint that was violated: nothing was written. A *pgconn.PgError is in
//     the chain.
//
// In a transaction at REPEATABLE READ or SERIALIZABLE a row that was committed after its snapshot is
// [fence.ErrNotFound] to [TableGuard.Update]; the next transaction sees it.
//
// The end of a context is in the chain as well, as context.Canceled or context.DeadlineExceeded.
//
// # A holder that is paused in the middle
//
// The others wait for the mark meanwhile, each until its context ends. The server ends the transaction
// once it has been idle for as long as [WithHoldTimeout] says. A statement that runs long is not idle:
// statement_timeout and the context bound that.
//
// # Sessions and poolers
//
// Nothing is left in a session: no setting, no advisory lock. All works in every exec mode of pgx, and
// a cached statement that is gone (DISCARD ALL, a pooler) is prepared again; in a transaction that has
// begun it is [fence.ErrUnavailable], and the next one will do. Behind a pooler that hands
// out another session for each transaction, use a mode that it supports, such as
// pgx.QueryExecModeExec, unless it takes care of prepared statements.
//
// PostgreSQL 12 or newer is needed.
//
// # Who may write
//
// Whoever may run fence_admit and write fence_marks may raise a mark. The guard keeps late writers out
// that go through it; it does not keep out a program that writes the data without it.
package pgguard
