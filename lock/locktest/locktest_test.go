package locktest_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fault is what is wrong with a driver, and the cases that must find it, each by itself.
type fault struct {
	finds []string
	build func(s *locktest.ScriptedAll, store *memlock.Driver)
}

// faults of all kinds, by name.
func faults() map[string]fault {
	all := make(map[string]fault)
	for _, kind := range []map[string]fault{protocolFaults, queueFaults, takeoverFaults, lockerFaults} {
		maps.Copy(all, kind)
	}
	return all
}

// TestSuiteFindsFaults judges broken drivers, in a bubble: a case that waits for what doesn't come costs
// no time.
func TestSuiteFindsFaults(t *testing.T) {
	for name, f := range faults() {
		for _, finds := range f.finds {
			t.Run(name+"/"+finds, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New()
					s := locktest.ScriptAll(store)
					f.build(s, store)
					require.NotEmpty(t, locktest.Judge(s, finds), "the case passed a driver that is broken")
				})
			})
		}
	}
}

// TestSuitePassesWhatIsWhole judges drivers that have all abilities, and none.
func TestSuitePassesWhatIsWhole(t *testing.T) {
	for kind, build := range map[string]func() driver.Driver{
		"all":  func() driver.Driver { return locktest.ScriptAll(memlock.New()) },
		"none": func() driver.Driver { return &locktest.Scripted{Driver: memlock.New()} },
	} {
		for _, name := range locktest.Cases(build()) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					require.Empty(t, locktest.Judge(build(), name))
				})
			})
		}
	}
}

// TestEachCaseHasAFault says that there is a driver that fails it, for each case.
func TestEachCaseHasAFault(t *testing.T) {
	found := make(map[string]bool)
	for _, f := range faults() {
		for _, name := range f.finds {
			found[name] = true
		}
	}
	assert.ElementsMatch(t, locktest.Cases(memlock.New()), slices.Collect(maps.Keys(found)))
}
