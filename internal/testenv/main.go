//go:build unix

package testenv

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the body of a package's TestMain. It runs the tests, stops the shared servers, removes their
// folders, looks for leaked goroutines (only after tests that passed), and exits the process. opts are
// goleak's, for goroutines that a library is known to keep.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	if err := current.close(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: the tests passed and left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// skipShort is the only skip in this module.
func skipShort(tb testing.TB, what string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("needs a real %s server: run without -short", what)
	}
}
