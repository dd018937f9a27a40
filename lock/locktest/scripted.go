package locktest

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Scripted is a driver whose calls a test can step into. A nil func leaves the call to Driver; another
// gets the call as next and may make it before, after or not at all. Set the funcs before the first
// call; several run at once, on goroutines of the Locker's. A Scripted has none of the optional abilities:
// see [ScriptedAll].
type Scripted struct {
	driver.Driver
	OnAcquire func(ctx context.Context, r driver.Request, next AcquireFunc) (driver.Grant, error)
	OnRenew   func(ctx context.Context, rs []driver.Renewal, next RenewFunc) []error
	OnRelease func(ctx context.Context, c fence.Claim, keep time.Duration, next ReleaseFunc) error
}

type (
	// AcquireFunc is a driver's Acquire, for a script to call.
	AcquireFunc func(context.Context, driver.Request) (driver.Grant, error)
	// RenewFunc is a driver's Renew, for a script to call.
	RenewFunc func(context.Context, []driver.Renewal) []error
	// ReleaseFunc is a driver's Release, for a script to call.
	ReleaseFunc func(context.Context, fence.Claim, time.Duration) error
)

// Acquire implements [driver.Driver].
func (s *Scripted) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if s.OnAcquire == nil {
		return s.Driver.Acquire(ctx, r)
	}
	return s.OnAcquire(ctx, r, s.Driver.Acquire)
}

// Renew implements [driver.Driver].
func (s *Scripted) Renew(ctx context.Context, rs []driver.Renewal) []error {
	if s.OnRenew == nil {
		return s.Driver.Renew(ctx, rs)
	}
	return s.OnRenew(ctx, rs, s.Driver.Renew)
}

// Release implements [driver.Driver].
func (s *Scripted) Release(ctx context.Context, c fence.Claim, keep time.Duration) error {
	if s.OnRelease == nil {
		return s.Driver.Release(ctx, c, keep)
	}
	return s.OnRelease(ctx, c, keep, s.Driver.Release)
}
