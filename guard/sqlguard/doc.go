// Package sqlguard is a guard in a database that is reached through database/sql. Its marks live
// beside the data they protect and are raised in the same transaction. There is one [Dialect] so far,
// [SQLite].
//
//	guard, err := sqlguard.New(db, sqlguard.SQLite)
//	err = guard.InTx(ctx, lease.Claim(), func(tx *sql.Tx) error {
//		// read, decide, write: no older claim gets in from here to the commit
//	})
//
// The marks are in the table fence_marks, which [Migrate] creates ([Guard.InTx], [Guard.Do],
// [Guard.AdmitTx], [Guard.Admit]), or in the protected rows themselves ([Guard.Table]). Use one of the
// two for a resource, never both.
//
// # What is guaranteed
//
// The claim is checked and the mark raised by the first statement of the transaction, which takes the
// write lock. What the transaction reads after it is up to date. Another writer waits until the
// transaction ends, and is then judged by the mark that it left. A claim that is refused changes
// nothing. A function that fails or panics is rolled back, the mark with it.
//
// # SQLite
//
// The package imports no driver. It is tested with modernc.org/sqlite; another one will do if its
// errors have a method Code() int or SQLite's own texts. SQLite 3.35 or later; any journal mode. A
// database in memory is one per connection: let the pool have one connection only.
//
// SQLite has one writer at a time for the whole database. A transaction of [Guard.InTx] makes every
// writer wait, for other resources too, and so does a process that is stopped inside one. Waits are
// bounded: by the call's context, and by [WithBusyTimeout]; after either the call fails with
// [fence.ErrUnavailable]. (Opening a connection is not the guard's: a DSN with PRAGMAs that read the
// database wants a busy_timeout of its own.)
//
// Some errors make SQLite roll the whole transaction back by itself: a writing statement whose own
// context ended, ON CONFLICT ROLLBACK or RAISE(ROLLBACK), a full disk. The function must return such an
// error, for what it writes after that is outside the transaction: unguarded, and committed at once. So
// give its statements the function's context, none that ends sooner. The guard finds out at its next
// call and at the COMMIT, and says [fence.ErrOutcomeUnknown]; it can't keep the writes in between out.
//
// Call the guard with the context that [Guard.Do] gives to its function, when within it: such calls are
// part of that transaction. With another context they would wait for it, and it for them.
//
// # Outcomes
//
// A COMMIT is never cut off: once it is sent, the end of the context no longer counts, and the call
// waits for its answer (at most the busy timeout, for readers in a rollback-journal database). Only if
// the answer then says neither that it took effect nor that it didn't - a failing disk, a broken
// connection - the error is [fence.ErrOutcomeUnknown].
package sqlguard
