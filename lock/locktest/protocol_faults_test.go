package locktest_test

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

var protocolFaults = map[string]fault{
	"token zero": {[]string{"L01_FreeResourceIsGranted"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			g.Token = 0
			return g, err
		}
	}},
	"anybody releases": {[]string{"L02_OnlyTheHolderReleases", "L02_ATurnIsNoLease"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			_ = next(ctx, c, keep)
			return nil
		}
	}},
	"anybody renews": {[]string{"L02_OnlyTheHolderRenews", "L02_ATurnIsNoLease"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			next(ctx, rs)
			return make([]error, len(rs))
		}
	}},
	"answers out of order": {[]string{"L02_RenewAnswersEachInOrder"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			errs := next(ctx, rs)
			for i, j := 0, len(errs)-1; i < j; i, j = i+1, j-1 {
				errs[i], errs[j] = errs[j], errs[i]
			}
			return errs
		}
	}},
	"a replay is another grant": {[]string{"L03_ReplayReturnsTheStoredToken"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			_ = store.Release(ctx, fence.Claim{Resource: r.Resource, Token: 1, Holder: r.Holder}, 0)
			return next(ctx, r)
		}
	}},
	"no tombstone": {[]string{"L04_TombstoneStopsALateAcquire"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				c.Token = 1
				_ = next(ctx, c, keep)
				return nil
			}
			return next(ctx, c, keep)
		}
	}},
	"abandons nothing": {[]string{"L04_AbandonEndsTheLease"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				return nil
			}
			return next(ctx, c, keep)
		}
	}},
	"sends on an ended context": {[]string{"C05_EndedContextSendsNothing"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			return next(context.WithoutCancel(ctx), r)
		}
	}},
	"never expires": {[]string{"L14_LeaseExpires"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			r.TTL = time.Hour
			return next(ctx, r)
		}
	}},
	"shortens unasked": {[]string{"L14_RenewalSetsTheEnd"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			for i := range rs {
				rs[i].Shorten = true
			}
			return next(ctx, rs)
		}
	}},
	"folds names": {[]string{"L16_NamesAreApart"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			r.Resource = folded(r.Resource)
			return next(ctx, r)
		}
	}},
	"tokens start over": {[]string{"L17_TokensRise"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			g.Token = g.Token%7 + 1
			return g, err
		}
	}},
	"keeps nothing": {[]string{"Locker/L21_MinHoldHoldsTheLine", "L21_KeepLeavesItTaken", "L21_KeptResourceIsNobodysTurn"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, _ time.Duration, next locktest.ReleaseFunc) error {
			return next(ctx, c, 0)
		}
	}},
	"two holders": {[]string{"OneHolderAtATime"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			if err != nil && ctx.Err() == nil {
				r.Resource = uuid.NewString()
				return next(ctx, r)
			}
			return g, err
		}
	}},
}

func folded(name string) string {
	if n := len(name) - 1; name[n] == ' ' {
		return name[:n]
	}
	return name
}
