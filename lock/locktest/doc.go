// Package locktest judges lock drivers, and lets tests script faults.
//
// A driver's own test calls the suite:
//
//	func TestConformance(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) driver.Driver { return mydriver.New(...) })
//	}
//
// It has cases for the protocol of package driver, for each of the optional abilities that the driver has
// - a line of waiters, Resume, Raise, Break, Inspect -, and, named Locker/..., for what package lock makes of
// them. A case's name is the rule that it is about. Cases mostly wait for time to pass: with go test's
// -parallel above the number of cores they are sooner done.
//
// [Scripted] wraps any driver so that a test can delay, fail or answer its calls: for testing what a
// program does when it loses a lease, or when the store can't be reached. It has none of the optional
// abilities, whatever the driver has. [ScriptAll] wraps a driver that has all of them, memlock for one.
package locktest
