package locktest_test

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

var takeoverFaults = map[string]fault{
	"resumes under the old token": {[]string{"Locker/L22_DetachedLeaseIsResumed", "L22_ResumeExchangesHolderAndToken"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			g, err := store.Resume(ctx, c, r)
			g.Token = c.Token
			return g, err
		})},
	"resumes whatever the token": {[]string{"Locker/L22_DetachedLeaseIsResumed", "L22_OnlyTheExactClaimIsResumed"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			info, err := store.Inspect(ctx, c.Resource)
			if err != nil {
				return driver.Grant{}, err
			}
			c.Token = info.Token
			return store.Resume(ctx, c, r)
		})},
	"resumes twice": {[]string{"Locker/L22_DoubleClickResumesOnce", "L22_AClaimIsResumedOnce"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			return store.Break(ctx, r, "")
		})},
	"resumes for longer": {[]string{"L22_ResumeSetsTheEndIfTold"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			r.TTL = max(r.TTL, time.Minute)
			return store.Resume(ctx, c, r)
		})},
	"resumes for as long": {[]string{"L22_ResumeSetsTheEndIfTold"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			r.TTL = 0
			return store.Resume(ctx, c, r)
		})},
	"a replayed resume is lost": {[]string{"L03_ReplayedResumeReturnsTheStoredToken"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			info, err := store.Inspect(ctx, c.Resource)
			if err == nil && info.Holder != fence.Fingerprint(c.Holder) {
				return driver.Grant{}, driver.ErrLost
			}
			return store.Resume(ctx, c, r)
		})},
	"resumes under another name": {[]string{"L04_TombstoneStopsALateResume"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			g, err := store.Resume(ctx, c, r)
			if err != nil && !errors.Is(err, driver.ErrLost) {
				r.Holder = uuid.New()
				return store.Resume(ctx, c, r)
			}
			return g, err
		})},
	"resumes what is over": {[]string{"L08_ResumeRevivesNothing"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, c.Resource); err == nil && !info.Held && r.TTL > 0 {
				return store.Acquire(ctx, r)
			}
			return store.Resume(ctx, c, r)
		})},
	"resumes on an ended context": {[]string{"C05_EndedContextResumesNothing"}, onResume(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			return store.Resume(context.WithoutCancel(ctx), c, r)
		})},

	"raises nothing": {[]string{"Locker/L19_RaiseLiftsLaterTokens", "L19_RaiseLiftsLaterTokens"}, onRaise(
		func(context.Context, *memlock.Driver, string, fence.Token) error { return nil })},
	"raises over the end": {[]string{"L19_TokensEnd"}, onRaise(
		func(ctx context.Context, store *memlock.Driver, resource string, past fence.Token) error {
			return store.Raise(ctx, resource, min(past, math.MaxInt64-1))
		})},
	"raises by a double": {[]string{"C01_LiftedTokensAreExact"}, onRaise(
		func(ctx context.Context, store *memlock.Driver, resource string, past fence.Token) error {
			return store.Raise(ctx, resource, fence.Token(float64(past)))
		})},
	"raises on an ended context": {[]string{"C05_EndedContextRaisesNothing"}, onRaise(
		func(ctx context.Context, store *memlock.Driver, resource string, past fence.Token) error {
			return store.Raise(context.WithoutCancel(ctx), resource, past)
		})},
	"stores no advance": {[]string{"Locker/L19_SealHeals", "L19_AdvanceLiftsTheToken"}, onAdvance(
		func(_ context.Context, _ *memlock.Driver, c fence.Claim, past fence.Token) (fence.Token, error) {
			return max(c.Token, past) + 1, nil
		})},
	"anybody advances": {[]string{"L19_OnlyTheHolderAdvances"}, onAdvance(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, past fence.Token) (fence.Token, error) {
			token, err := store.Advance(ctx, c, past)
			if errors.Is(err, driver.ErrLost) {
				return past + 1, nil
			}
			return token, err
		})},
	"a replay advances": {[]string{"L03_ReplayedAdvanceReturnsTheStoredToken"}, onAdvance(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, past fence.Token) (fence.Token, error) {
			if info, err := store.Inspect(ctx, c.Resource); err == nil {
				c.Token = info.Token
			}
			return store.Advance(ctx, c, past)
		})},
	"whatever was advanced will do": {[]string{"L03_ReplayedAdvanceReturnsTheStoredToken"}, onAdvance(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, past fence.Token) (fence.Token, error) {
			if info, err := store.Inspect(ctx, c.Resource); err == nil && info.Token > c.Token {
				return info.Token, nil
			}
			return store.Advance(ctx, c, past)
		})},
	"advances on an ended context": {[]string{"C05_EndedContextRaisesNothing"}, onAdvance(
		func(ctx context.Context, store *memlock.Driver, c fence.Claim, past fence.Token) (fence.Token, error) {
			return store.Advance(context.WithoutCancel(ctx), c, past)
		})},

	"breaks nothing": {[]string{"Locker/L23_BrokenLeaseIsLost", "L23_BreakTakesWhatIsHeld"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, _ string) (driver.Grant, error) {
			return store.Acquire(ctx, r)
		})},
	"breaks only leases": {[]string{"L23_BreakTakesWhatIsFreeOrKept"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, fingerprint string) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, r.Resource); err == nil && !info.Held {
				return driver.Grant{}, driver.ErrLost
			}
			return store.Break(ctx, r, fingerprint)
		})},
	"breaks anybody's": {[]string{"Locker/L23_BreakHitsOnlyWhoIsMeant", "L23_BreakHitsOnlyWhoIsMeant"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, _ string) (driver.Grant, error) {
			return store.Break(ctx, r, "")
		})},
	"a replayed break is lost": {[]string{"L03_ReplayedBreakReturnsTheStoredToken"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, fingerprint string) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, r.Resource); err == nil && fingerprint != "" && info.Holder != fingerprint {
				return driver.Grant{}, driver.ErrLost
			}
			return store.Break(ctx, r, fingerprint)
		})},
	"breaks under another name": {[]string{"L04_TombstoneStopsALateBreak"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, fingerprint string) (driver.Grant, error) {
			g, err := store.Break(ctx, r, fingerprint)
			if err != nil && !errors.Is(err, driver.ErrLost) {
				r.Holder = uuid.New()
				return store.Break(ctx, r, fingerprint)
			}
			return g, err
		})},
	"breaks on an ended context": {[]string{"C05_EndedContextBreaksNothing"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, fingerprint string) (driver.Grant, error) {
			return store.Break(context.WithoutCancel(ctx), r, fingerprint)
		})},
	"breaks no turn": {[]string{"L23_BreakPassesTheLine"}, onBreak(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, fingerprint string) (driver.Grant, error) {
			if info, err := store.Inspect(ctx, r.Resource); err == nil && !info.Held {
				return store.Acquire(ctx, r)
			}
			return store.Break(ctx, r, fingerprint)
		})},

	"tells no label": {[]string{"Locker/InspectTellsWhoHolds", "InspectTellsWhoHolds"}, onInspect(
		func(ctx context.Context, store *memlock.Driver, resource string) (driver.Info, error) {
			info, err := store.Inspect(ctx, resource)
			info.Label = ""
			return info, err
		})},
	"counts nobody": {[]string{"InspectCountsTheLine"}, onInspect(
		func(ctx context.Context, store *memlock.Driver, resource string) (driver.Info, error) {
			info, err := store.Inspect(ctx, resource)
			info.Waiters = 0
			return info, err
		})},
	"inspects on an ended context": {[]string{"C05_EndedContextInspectsNothing"}, onInspect(
		func(ctx context.Context, store *memlock.Driver, resource string) (driver.Info, error) {
			return store.Inspect(context.WithoutCancel(ctx), resource)
		})},
}

func onResume(f func(context.Context, *memlock.Driver, fence.Claim, driver.Request) (driver.Grant, error)) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnResume = func(ctx context.Context, c fence.Claim, r driver.Request, _ locktest.ResumeFunc) (driver.Grant, error) {
			return f(ctx, store, c, r)
		}
	}
}

func onRaise(f func(context.Context, *memlock.Driver, string, fence.Token) error) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnRaise = func(ctx context.Context, resource string, past fence.Token, _ locktest.RaiseFunc) error {
			return f(ctx, store, resource, past)
		}
	}
}

func onAdvance(f func(context.Context, *memlock.Driver, fence.Claim, fence.Token) (fence.Token, error)) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnAdvance = func(ctx context.Context, c fence.Claim, past fence.Token, _ locktest.AdvanceFunc) (fence.Token, error) {
			return f(ctx, store, c, past)
		}
	}
}

func onBreak(f func(context.Context, *memlock.Driver, driver.Request, string) (driver.Grant, error)) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnBreak = func(ctx context.Context, r driver.Request, fingerprint string, _ locktest.BreakFunc) (driver.Grant, error) {
			return f(ctx, store, r, fingerprint)
		}
	}
}

func onInspect(f func(context.Context, *memlock.Driver, string) (driver.Info, error)) func(*locktest.ScriptedAll, *memlock.Driver) {
	return func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnInspect = func(ctx context.Context, resource string, _ locktest.InspectFunc) (driver.Info, error) {
			return f(ctx, store, resource)
		}
	}
}
