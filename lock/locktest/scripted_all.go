package locktest

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Full is a driver that has every optional ability, as memlock and redislock have.
type Full interface {
	driver.Driver
	driver.Waiter
	driver.Resumer
	driver.Raiser
	driver.Breaker
	driver.Inspector
}

// ScriptedAll is a [Scripted] with every optional ability, and a func to step into each. Use
// [ScriptAll]. For a driver with some of them, embed a Scripted and these:
//
//	struct {
//		*locktest.Scripted
//		driver.Waiter
//	}
type ScriptedAll struct {
	Scripted
	OnWait    func(ctx context.Context, r driver.Request, p driver.Place, next WaitFunc) (driver.Grant, error)
	OnLeave   func(ctx context.Context, resource string, holder, listener uuid.UUID, next LeaveFunc) error
	OnListen  func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next ListenFunc) error
	OnResume  func(ctx context.Context, c fence.Claim, r driver.Request, next ResumeFunc) (driver.Grant, error)
	OnRaise   func(ctx context.Context, resource string, past fence.Token, next RaiseFunc) error
	OnAdvance func(ctx context.Context, c fence.Claim, past fence.Token, next AdvanceFunc) (fence.Token, error)
	OnBreak   func(ctx context.Context, r driver.Request, fingerprint string, next BreakFunc) (driver.Grant, error)
	OnInspect func(ctx context.Context, resource string, next InspectFunc) (driver.Info, error)

	full Full
}

var _ Full = (*ScriptedAll)(nil)

type (
	// WaitFunc is a driver's Wait, for a script to call.
	WaitFunc func(context.Context, driver.Request, driver.Place) (driver.Grant, error)
	// LeaveFunc is a driver's Leave, for a script to call.
	LeaveFunc func(ctx context.Context, resource string, holder, listener uuid.UUID) error
	// ListenFunc is a driver's Listen, for a script to call.
	ListenFunc func(context.Context, uuid.UUID, func(), func(driver.Turn)) error
	// ResumeFunc is a driver's Resume, for a script to call.
	ResumeFunc func(context.Context, fence.Claim, driver.Request) (driver.Grant, error)
	// RaiseFunc is a driver's Raise, for a script to call.
	RaiseFunc func(context.Context, string, fence.Token) error
	// AdvanceFunc is a driver's Advance, for a script to call.
	AdvanceFunc func(context.Context, fence.Claim, fence.Token) (fence.Token, error)
	// BreakFunc is a driver's Break, for a script to call.
	BreakFunc func(context.Context, driver.Request, string) (driver.Grant, error)
	// InspectFunc is a driver's Inspect, for a script to call.
	InspectFunc func(context.Context, string) (driver.Info, error)
)

// ScriptAll wraps d. It leaves every call to d until a func is set.
func ScriptAll(d Full) *ScriptedAll {
	return &ScriptedAll{Scripted: Scripted{Driver: d}, full: d}
}

// Wait implements [driver.Waiter].
func (s *ScriptedAll) Wait(ctx context.Context, r driver.Request, p driver.Place) (driver.Grant, error) {
	if s.OnWait == nil {
		return s.full.Wait(ctx, r, p)
	}
	return s.OnWait(ctx, r, p, s.full.Wait)
}

// Leave implements [driver.Waiter].
func (s *ScriptedAll) Leave(ctx context.Context, resource string, holder, listener uuid.UUID) error {
	if s.OnLeave == nil {
		return s.full.Leave(ctx, resource, holder, listener)
	}
	return s.OnLeave(ctx, resource, holder, listener, s.full.Leave)
}

// Listen implements [driver.Waiter].
func (s *ScriptedAll) Listen(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn)) error {
	if s.OnListen == nil {
		return s.full.Listen(ctx, listener, ready, turn)
	}
	return s.OnListen(ctx, listener, ready, turn, s.full.Listen)
}

// Resume implements [driver.Resumer].
func (s *ScriptedAll) Resume(ctx context.Context, c fence.Claim, r driver.Request) (driver.Grant, error) {
	if s.OnResume == nil {
		return s.full.Resume(ctx, c, r)
	}
	return s.OnResume(ctx, c, r, s.full.Resume)
}

// Raise implements [driver.Raiser].
func (s *ScriptedAll) Raise(ctx context.Context, resource string, past fence.Token) error {
	if s.OnRaise == nil {
		return s.full.Raise(ctx, resource, past)
	}
	return s.OnRaise(ctx, resource, past, s.full.Raise)
}

// Advance implements [driver.Raiser].
func (s *ScriptedAll) Advance(ctx context.Context, c fence.Claim, past fence.Token) (fence.Token, error) {
	if s.OnAdvance == nil {
		return s.full.Advance(ctx, c, past)
	}
	return s.OnAdvance(ctx, c, past, s.full.Advance)
}

// Break implements [driver.Breaker].
func (s *ScriptedAll) Break(ctx context.Context, r driver.Request, fingerprint string) (driver.Grant, error) {
	if s.OnBreak == nil {
		return s.full.Break(ctx, r, fingerprint)
	}
	return s.OnBreak(ctx, r, fingerprint, s.full.Break)
}

// Inspect implements [driver.Inspector].
func (s *ScriptedAll) Inspect(ctx context.Context, resource string) (driver.Info, error) {
	if s.OnInspect == nil {
		return s.full.Inspect(ctx, resource)
	}
	return s.OnInspect(ctx, resource, s.full.Inspect)
}
