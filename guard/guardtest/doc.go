// Package guardtest is the conformance suite of guards: every guard.Guard and guard.Doer of this
// module passes it, and one of your own should.
//
// A guard's test hands the suite a function that makes guards:
//
//	func TestConformance(t *testing.T) {
//		guardtest.Run(t, func(t *testing.T) guard.Guard { return myguard.New(...) })
//	}
//
// [Run] tests Admit: the rule, that a refused claim changes nothing, the order of concurrent claims,
// the whole range of tokens, names that a store could mistake for each other, and what is not a
// verdict. [RunDoer] tests Do as well; a [DoerHarness] says what kind of Doer it is and where the
// protected data is. A guard whose marks are rows that must exist before they are claimed is wrapped
// by [Rows].
//
// The suite never uses a resource name twice, so the guards may share a store, and the store may be
// kept from run to run. Every name begins with [Prefix]; names are up to 512 bytes long and contain
// quotes, percent signs, trailing spaces and non-ASCII letters.
//
// Random cases log their seed. A guard that blocks where it must not fails its case; it does not hang
// the run, as long as it heeds the end of its context.
package guardtest
