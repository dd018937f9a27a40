package locktest_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenVariable names the broken driver that TestBroken runs the suite on, in a process of its own.
const brokenVariable = "RINGFENCE_LOCKTEST_BROKEN"

// broken are drivers with one fault each, and the case that must find it.
var broken = map[string]struct {
	finds string
	make  func(*memlock.Driver) driver.Driver
}{
	"token zero": {"L01_FreeResourceIsGranted", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			g.Token = 0
			return g, err
		}}
	}},
	"anybody releases": {"L02_OnlyTheHolderReleases", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRelease: func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			_ = next(ctx, c, keep)
			return nil
		}}
	}},
	"anybody renews": {"L02_OnlyTheHolderRenews", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRenew: func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			next(ctx, rs)
			return make([]error, len(rs))
		}}
	}},
	"answers out of order": {"L02_RenewAnswersEachInOrder", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRenew: func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			errs := next(ctx, rs)
			for i, j := 0, len(errs)-1; i < j; i, j = i+1, j-1 {
				errs[i], errs[j] = errs[j], errs[i]
			}
			return errs
		}}
	}},
	"a replay is another grant": {"L03_ReplayReturnsTheStoredToken", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			_ = d.Release(ctx, fence.Claim{Resource: r.Resource, Token: 1, Holder: r.Holder}, 0)
			return next(ctx, r)
		}}
	}},
	"no tombstone": {"L04_TombstoneStopsALateAcquire", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRelease: func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				c.Token = 1
				_ = next(ctx, c, keep)
				return nil
			}
			return next(ctx, c, keep)
		}}
	}},
	"abandons nothing": {"L04_AbandonEndsTheLease", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRelease: func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				return nil
			}
			return next(ctx, c, keep)
		}}
	}},
	"sends on an ended context": {"C05_EndedContextSendsNothing", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			return next(context.WithoutCancel(ctx), r)
		}}
	}},
	"never expires": {"L14_LeaseExpires", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			r.TTL = time.Hour
			return next(ctx, r)
		}}
	}},
	"shortens unasked": {"L14_RenewalSetsTheEnd", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRenew: func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			for i := range rs {
				rs[i].Shorten = true
			}
			return next(ctx, rs)
		}}
	}},
	"folds names": {"L16_NamesAreApart", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			if n := len(r.Resource) - 1; r.Resource[n] == ' ' {
				r.Resource = r.Resource[:n]
			}
			return next(ctx, r)
		}}
	}},
	"tokens start over": {"L17_TokensRise", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			g.Token = g.Token%7 + 1
			return g, err
		}}
	}},
	"keeps nothing": {"L21_KeepLeavesItTaken", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRelease: func(ctx context.Context, c fence.Claim, _ time.Duration, next locktest.ReleaseFunc) error {
			return next(ctx, c, 0)
		}}
	}},
	"two holders": {"OneHolderAtATime", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnAcquire: func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			if err != nil && ctx.Err() == nil {
				r.Resource = uuid.NewString()
				return next(ctx, r)
			}
			return g, err
		}}
	}},
	"renews nothing": {"Locker/L13_LeaseIsRenewed", func(d *memlock.Driver) driver.Driver {
		return &locktest.Scripted{Driver: d, OnRenew: func(_ context.Context, rs []driver.Renewal, _ locktest.RenewFunc) []error {
			return make([]error, len(rs))
		}}
	}},
}

// TestSuiteFindsFaults runs the suite on each broken driver and expects the case to fail that is meant
// for its fault.
func TestSuiteFindsFaults(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestBroken$/^"+b.finds+"$", "-test.v")
			cmd.Env = append(os.Environ(), brokenVariable+"="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite passed a driver that is broken")
			assert.Contains(t, string(out), "--- FAIL: TestBroken/"+b.finds)
		})
	}
}

// TestBroken is for TestSuiteFindsFaults; by itself it judges a driver that is whole.
func TestBroken(t *testing.T) {
	b, isBroken := broken[os.Getenv(brokenVariable)]
	locktest.Run(t, func(*testing.T) driver.Driver {
		if isBroken {
			return b.make(memlock.New())
		}
		return memlock.New()
	})
}
