package locktest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// tb is what a case needs of a *testing.T.
type tb interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// attempt is a test that may fail without failing anything else. Use tryOut.
type attempt struct {
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// tryOut runs f and its clean-ups and returns what failed.
func tryOut(f func(tb)) []string {
	a := &attempt{}
	done := make(chan struct{})
	go func() { // FailNow ends a goroutine
		defer close(done)
		defer a.cleanUp()
		f(a)
	}()
	<-done
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures
}

// Errorf implements tb.
func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

// FailNow implements tb.
func (a *attempt) FailNow() { runtime.Goexit() }

// Helper implements tb.
func (a *attempt) Helper() {}

// Cleanup implements tb.
func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *attempt) cleanUp() {
	for _, f := range a.cleanups {
		defer f() // last in, first out; each, also if another ends the goroutine
	}
}

// timed makes a case of f that passes if one of five attempts does. For what must happen in time: a
// machine may stall once or twice, and a fault stays.
func timed(f func(*suite)) func(*suite) {
	return func(s *suite) {
		var failures []string
		for range 5 {
			failures = tryOut(func(t tb) {
				again := *s
				again.tb, again.resource = t, "locktest/"+uuid.NewString()
				f(&again)
			})
			if len(failures) == 0 {
				return
			}
		}
		require.Fail(s, strings.Join(failures, "\n"))
	}
}
