// Package chaos holds the tests that do to real processes what happens to them in the field: a holder
// of a lease in a real Redis is stopped past its lease, and wakes up to write on top of its successor.
package chaos
