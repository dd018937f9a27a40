package guardtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// DoerHarness is a Doer under test, what it declares itself to be, and where the data is that it
// protects.
type DoerHarness struct {
	Guard guard.Doer

	// Transactional: a failed function leaves no effect in Store and the mark where it was. Otherwise
	// the mark stays raised, and what the function did remains.
	Transactional bool
	// SingleWriter: while a function runs, claims for other resources wait too.
	SingleWriter bool
	// Nests: a call with the context of a running function, for the same resource, is part of that
	// call. In a transactional guard a refusal of it is sticky: the running Do returns it and commits
	// nothing, even if the function swallows it.
	Nests bool

	// Store holds the protected data. Nil: the suite keeps it in memory, for guards that protect what
	// is in this process; it takes part in no transaction.
	Store Store
	// Prepare makes the row of a resource, for guards whose marks are rows that must exist; see [Rows].
	Prepare func(t testing.TB, resource string)
}

// Store is the protected data: a number for each resource. With the context that Do gives to its
// function, Read and Write are part of the guard's transaction, if it has any.
type Store interface {
	Read(ctx context.Context, resource string) (int64, error) // 0 if nothing was written
	Write(ctx context.Context, resource string, value int64) error
}

// RunDoer tests the Doers that fresh returns, each case with one of its own. It includes [Run], once
// with Admit and once with Do in its place.
func RunDoer(t *testing.T, fresh func(t *testing.T) DoerHarness) {
	t.Helper()
	t.Run("Admit", func(t *testing.T) {
		runCases(t, func(t *testing.T) subject { return newDoerSubject(fresh(t)).subject })
	})
	t.Run("Do", func(t *testing.T) {
		runCases(t, func(t *testing.T) subject {
			d := newDoerSubject(fresh(t))
			return subject{guard: admitByDo{d.Guard}, prepare: d.Prepare}
		})
		for _, c := range doerCases {
			t.Run(c.name, func(t *testing.T) {
				d := newDoerSubject(fresh(t))
				if c.when == nil || c.when(d.DoerHarness) {
					c.run(t, d)
				}
			})
		}
	})
}

var doerCases = []struct {
	name string
	when func(DoerHarness) bool // nil: always
	run  func(t *testing.T, d doerSubject)
}{
	{"ContextReachesFunction", nil, testContextReaches},
	{"G03_FailedFunction", nil, testFailedFunction},
	{"C54_PanicGoesOn", nil, testPanic},
	{"C54_GoroutineEnds", nil, testGoexit},
	{"DoModel", nil, testDoModel},
	{"C42_OvertakenByDo", nil, testOvertakenByDo},
	{"C42_OvertakenByAdmit", nil, testOvertakenByAdmit},
	{"Serial", nil, testSerial},
	{"NewestWriteStays", nil, testNewestWriteStays},
	{"WaitingEndsWithContext", nil, testWaitingEnds},
	{"OtherResourcesGoOn", func(h DoerHarness) bool { return !h.SingleWriter }, testOthersGoOn},
	{"G09_NestedCallJoins", func(h DoerHarness) bool { return h.Nests }, testNested},
	{"G03_NestedRefusal", func(h DoerHarness) bool { return h.Nests }, testNestedRefusal},
}

// doerSubject is a harness that is ready for use, with the helpers of subject.
type doerSubject struct {
	DoerHarness
	subject
}

func newDoerSubject(h DoerHarness) doerSubject {
	if h.Store == nil {
		h.Store = &memory{values: map[string]int64{}}
	}
	return doerSubject{DoerHarness: h, subject: subject{guard: h.Guard, prepare: h.Prepare}}
}

// do is one call of Do, bounded by patience.
func (d doerSubject) do(ctx context.Context, c fence.Claim, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return d.Guard.Do(ctx, c, fn)
}

// writes is a function for Do that writes the value.
func (d doerSubject) writes(resource string, value int64) func(context.Context) error {
	return func(ctx context.Context) error { return d.Store.Write(ctx, resource, value) }
}

// admitByDo is a guard whose Admit is a Do without effect. That the function runs exactly when the
// claim is admitted is checked on the way.
type admitByDo struct{ doer guard.Doer }

// Admit is a Do.
func (a admitByDo) Admit(ctx context.Context, c fence.Claim) error {
	ran := 0
	err := a.doer.Do(ctx, c, func(context.Context) error {
		ran++
		return nil
	})
	switch {
	case err == nil && ran != 1:
		return fmt.Errorf("Do returned nil and ran its function %d times", ran)
	case err != nil && ran != 0:
		return fmt.Errorf("Do refused %v (%v), but ran its function", c, err) // no %w: it must fail any case
	}
	return err
}

// memory is a Store in this process.
type memory struct {
	mu     sync.Mutex
	values map[string]int64
}

func (m *memory) Read(_ context.Context, resource string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[resource], nil
}

func (m *memory) Write(_ context.Context, resource string, value int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[resource] = value
	return nil
}
