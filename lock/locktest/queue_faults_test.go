package locktest_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

var queueFaults = map[string]fault{
	"a replayed wait is another grant": {[]string{"L03_ReplayedWaitReturnsTheStoredToken"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			_ = store.Release(ctx, fence.Claim{Resource: r.Resource, Token: 1, Holder: r.Holder}, 0)
			return store.Wait(ctx, r, p)
		})},
	"a replayed wait is another place": {[]string{"L03_ReplayedWaitKeepsItsPlace"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			if p.Ticket == 0 {
				r.Holder = uuid.New()
			}
			return store.Wait(ctx, r, p)
		})},
	"joins on an ended context": {[]string{"C05_EndedContextKeepsOutOfLine"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			return store.Wait(context.WithoutCancel(ctx), r, p)
		})},
	"leaves on an ended context": {[]string{"C05_EndedContextKeepsOutOfLine"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnLeave = func(ctx context.Context, resource string, holder, listener uuid.UUID, next locktest.LeaveFunc) error {
			return next(context.WithoutCancel(ctx), resource, holder, listener)
		}
	}},
	"queues first of all": {[]string{"L10_FreeResourceIsGrantedToAWaiter"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			if p.Ticket == 0 {
				return driver.Grant{}, &driver.Queued{Ticket: 1}
			}
			return store.Wait(ctx, r, p)
		})},
	"last come, first served": {[]string{"Locker/L10_FirstComeFirstServed", "L10_FirstComeFirstServed"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		ticket := int64(1 << 40)
		s.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			if p.Ticket == 0 {
				ticket--
				p.Ticket = ticket
			}
			return next(ctx, r, p)
		}
	}},
	"a waiter jumps": {[]string{"L10_FirstComeFirstServed"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			g, err := store.Wait(ctx, r, p)
			var queued *driver.Queued
			if errors.As(err, &queued) && queued.RetryAfter <= driver.TurnFor {
				return store.Break(ctx, r, "")
			}
			return g, err
		})},
	"the lease is as short as the turn": {[]string{"L10_FirstComeFirstServed"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, r.Resource); err == nil && !info.Held && info.Waiters > 0 {
				r.TTL = driver.TurnFor
			}
			return store.Wait(ctx, r, p)
		})},
	"a try jumps": {[]string{"Locker/L10_TryNeverJumpsTheLine", "L10_TryNeverJumpsTheLine"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			var held *driver.Held
			if errors.As(err, &held) && held.RetryAfter <= driver.TurnFor {
				return store.Break(ctx, r, "")
			}
			return g, err
		}
	}},
	"a try jumps after an expiry": {[]string{"Locker/L10_TryNeverJumpsTheLine", "L10_TryNeverJumpsTheLine"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, r.Resource); err == nil && !info.Held && info.Waiters == 1 {
				return store.Break(ctx, r, "")
			}
			return next(ctx, r)
		}
	}},
	"ignores tickets": {[]string{"L10_TicketKeepsThePlace"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			p.Ticket = 0
			return store.Wait(ctx, r, p)
		})},
	"the dead stay": {[]string{"L11_TheSilentLoseTheirPlace"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		type asked struct {
			driver.Request
			driver.Place
		}
		var all []asked
		s.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			for _, a := range all {
				_, _ = store.Wait(ctx, a.Request, a.Place)
			}
			all = append(all, asked{r, p})
			return next(ctx, r, p)
		}
	}},
	"folds lines": {[]string{"L16_LinesAreApart"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			r.Resource = folded(r.Resource)
			return store.Wait(ctx, r, p)
		})},
	"two holders, in line": {[]string{"OneHolderAtATime_InLine"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			g, err := store.Wait(ctx, r, p)
			if err != nil && ctx.Err() == nil {
				r.Resource = uuid.NewString()
				return store.Wait(ctx, r, p)
			}
			return g, err
		})},
	"takes a second between holders": {[]string{"Locker/L11_TheDeadCostATurnAfterARelease", "Locker/C25_NoReleaseGoesUnnoticed", "L11_AMissedTurnIsPassedOn"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			return next(ctx, c, max(keep, time.Second))
		}
	}},
	"passes nobody over": {[]string{"Locker/L11_TheDeadCostATurnAfterAnExpiry", "L11_TheSilentArePassedOver"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			p.Overdue = 0
			return store.Wait(ctx, r, p)
		})},
	"passes over at once": {[]string{"L11_TheSilentArePassedOver"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			p.Overdue *= 2
			return store.Wait(ctx, r, p)
		})},
	"mute": {[]string{"Locker/L11_TheDeadCostATurnAfterARelease", "Locker/L23_BreakLetsTheNextIn", "L12_ReleaseTellsTheFirst", "L04_AbandonedLeaseIsPassedOn"}, onTurn(func(driver.Turn, func(driver.Turn)) {})},
	"tells only of releases": {[]string{"L12_WhoFindsItFreeTellsTheFirst"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		var mu sync.Mutex
		releasing := false
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			mu.Lock()
			defer mu.Unlock()
			releasing = true
			defer func() { releasing = false }()
			return next(ctx, c, keep)
		}
		onTurn(func(t driver.Turn, turn func(driver.Turn)) {
			if releasing {
				turn(t)
			}
		})(s, store)
	}},
	"takes all for one": {[]string{"L12_OneListenerForMany"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		var first uuid.UUID
		onTurn(func(t driver.Turn, turn func(driver.Turn)) {
			if first == uuid.Nil {
				first = t.Holder
			}
			t.Holder = first
			turn(t)
		})(s, store)
	}},
	"listens without an error": {[]string{"L12_ListenEndsWithItsContext"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			_ = next(ctx, listener, ready, turn)
			return nil
		}
	}},
	"everybody's turn": {[]string{"C26_OnlyTheFirstHasTheTurn"}, onTurn(func(t driver.Turn, turn func(driver.Turn)) {
		turn(driver.Turn{Holder: t.Holder})
	})},
	"nobody leaves": {
		[]string{"Locker/L04_WhoGivesUpLeavesAtOnce", "L04_LeaveGivesUpThePlace", "L04_LeaveEndsTheLease", "L04_AbandonedTurnIsPassedOn"},
		func(s *locktest.ScriptedAll, _ *memlock.Driver) {
			s.OnLeave = func(context.Context, string, uuid.UUID, uuid.UUID, locktest.LeaveFunc) error { return nil }
		},
	},
	"an abandoned lease is kept": {[]string{"L04_AbandonedLeaseIsPassedOn"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, _ time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				return store.Release(ctx, fence.Claim{Resource: c.Resource, Token: 1, Holder: c.Holder}, driver.TurnFor)
			}
			return next(ctx, c, driver.TurnFor)
		}
	}},
	"waits under another name": {[]string{"L04_TombstoneStopsALateWait"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			g, err := store.Wait(ctx, r, p)
			var queued *driver.Queued
			if err != nil && !errors.As(err, &queued) {
				r.Holder = uuid.New()
				return store.Wait(ctx, r, p)
			}
			return g, err
		})},
}

// onWait builds a driver that waits as f does.
func onWait(f func(context.Context, *memlock.Driver, driver.Request, driver.Place) (driver.Grant, error)) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, _ locktest.WaitFunc) (driver.Grant, error) {
			return f(ctx, store, r, p)
		}
	}
}

// onTurn builds a driver that tells a turn as f does.
func onTurn(f func(t driver.Turn, turn func(driver.Turn))) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			return next(ctx, listener, ready, func(t driver.Turn) { f(t, turn) })
		}
	}
}
