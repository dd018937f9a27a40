//go:build unix

package testenv

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

func TestMain(m *testing.M) {
	// These tests are about servers of our own.
	_ = os.Unsetenv("RINGFENCE_TEST_REDIS")
	_ = os.Unsetenv("RINGFENCE_TEST_POSTGRES")
	Main(m)
}

// recorder is a testing.TB whose failures are looked at, not counted.
type recorder struct {
	testing.TB
	message  string
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) FailNow()          { runtime.Goexit() }
func (r *recorder) Error(args ...any) { r.message += fmt.Sprint(args...) }

func (r *recorder) Errorf(format string, args ...any) { r.message += fmt.Sprintf(format, args...) }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failureOf runs f as a test of its own and returns what it failed with, "" if it passed.
func failureOf(tb testing.TB, f func(testing.TB)) string {
	r := &recorder{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		f(r)
	}()
	<-done
	return r.message
}
