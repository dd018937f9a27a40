// Package memguard is a guard in the memory of this process.
//
// Its marks are lost with the process, and another process knows nothing of them. It is the right
// guard where the protected data is lost and shared in the same way: tests, and services that keep
// their data in memory too. Data that outlives the process needs a guard that lives with it.
//
// # What Do guarantees
//
// [Guard.Do] holds the resource while its function runs: every other Do or Admit of the same
// resource waits, until it gets its turn or its context ends. So a newer claim is never admitted in
// the middle of an older one's writes, and the older one is refused afterwards. Other resources go
// on; no lock is held across all of them while a function runs.
//
// The function's effects must be complete when it returns. A goroutine that it leaves behind and
// that still writes is outside the guard.
//
// The guard can't undo what the function did. So it is not transactional: the mark is raised before
// the function runs and stays raised when it fails or panics, which is the safe side. A claim with a
// holder can go on and try again; one without a holder has been used up (the once rule).
//
// # Nested calls
//
// A call for a resource with the context that Do's function was given, from within that function,
// joins: it is judged by the mark, but doesn't wait for the call it is part of.
//
// Functions that take further resources while they hold one can wait for each other in a circle; it
// ends when the context of one of them does.
//
// # Memory
//
// A mark is never removed: that would let an old claim in again. What remains of a resource is its
// name, its mark and about 200 bytes; refused and malformed claims leave nothing.
package memguard
