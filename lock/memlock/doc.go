// Package memlock is a lock store inside the process: for tests, for programs of one process, and as
// the reference to read before writing another driver. It has all that package driver asks for, the
// optional abilities too.
//
// Leases end with the process. The tokens of a resource start at the clock in microseconds and rise by at
// least one for each grant, so that they rise again after a restart if the wall clock has not been set
// back further than the process ran.
//
// # To read
//
// memlock.go has the calls that every driver has, state.go what is kept for a resource and for how long,
// token.go where tokens come from, queue.go the line and whose turn it is, listen.go how a waiter is told,
// takeover.go and inspect.go the rest.
//
// One mutex makes each call one atomic step. In a store on a network that is one script, or one
// statement, and one round trip.
package memlock
