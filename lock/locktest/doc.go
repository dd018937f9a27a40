// Package locktest judges lock drivers, and lets tests script faults.
//
// A driver's own test calls the suite:
//
//	func TestConformance(t *testing.T) {
//		locktest.Run(t, func(t *testing.T) driver.Driver { return mydriver.New(...) })
//	}
//
// [Scripted] wraps any driver, memlock for one, so that a test can delay, fail or answer its calls:
// for testing what a program does when it loses a lease, or when the store can't be reached.
package locktest
