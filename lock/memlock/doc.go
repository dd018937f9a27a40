// Package memlock is a lock store inside the process: for tests, for programs of one process, and as
// the reference to read before writing another driver.
//
// Leases end with the process. Tokens start at the wall clock in microseconds and rise by at least one
// for each grant, over all resources, so that they rise again after a restart if the clock has not
// been set back further than the process ran.
package memlock
