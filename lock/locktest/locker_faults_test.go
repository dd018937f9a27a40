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

var lockerFaults = map[string]fault{
	"renews nothing": {[]string{"Locker/LostMemberEndsTheSet", "Locker/L13_LeaseIsRenewed", "Locker/L05_LossIsTold"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRenew = func(_ context.Context, rs []driver.Renewal, _ locktest.RenewFunc) []error {
			return make([]error, len(rs))
		}
	}},
	"releases nothing": {[]string{"Locker/SetIsAllOrNone", "Locker/L09_ReleaseIgnoresTheContext"}, func(s *locktest.ScriptedAll, _ *memlock.Driver) {
		s.OnRelease = func(context.Context, fence.Claim, time.Duration, locktest.ReleaseFunc) error { return nil }
	}},
	"abandons anybody's": {[]string{"Locker/C19_StaleReleaseTouchesNobody"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if c.Token == 0 {
				_, _ = store.Break(ctx, driver.Request{Resource: c.Resource, Holder: c.Holder, TTL: time.Second}, "")
			}
			return next(ctx, c, keep)
		}
		s.OnLeave = func(ctx context.Context, resource string, holder, listener uuid.UUID, next locktest.LeaveFunc) error {
			_, _ = store.Break(ctx, driver.Request{Resource: resource, Holder: holder, TTL: time.Second}, "")
			return next(ctx, resource, holder, listener)
		}
	}},
	"two holders, in lockers": {[]string{"Locker/SetsNeverDeadlock", "Locker/AcquireWaitsForRelease"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		s.OnWait = func(ctx context.Context, r driver.Request, _ driver.Place, _ locktest.WaitFunc) (driver.Grant, error) {
			return store.Break(ctx, r, "")
		}
	}},
	"hurries": {[]string{"Locker/L12_AnIdleWaiterAsksOnceASecond"}, onWait(
		func(ctx context.Context, store *memlock.Driver, r driver.Request, p driver.Place) (driver.Grant, error) {
			g, err := store.Wait(ctx, r, p)
			var queued *driver.Queued
			if errors.As(err, &queued) {
				queued.RetryAfter = 100 * time.Millisecond
			}
			return g, err
		})},
	"tells all": {[]string{"Locker/C26_AReleaseWakesOne"}, func(s *locktest.ScriptedAll, store *memlock.Driver) {
		var (
			mu  sync.Mutex
			all []uuid.UUID
		)
		s.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			mu.Lock()
			all = append(all, r.Holder)
			mu.Unlock()
			return next(ctx, r, p)
		}
		onTurn(func(_ driver.Turn, turn func(driver.Turn)) {
			mu.Lock()
			defer mu.Unlock()
			for _, holder := range all {
				turn(driver.Turn{Holder: holder})
			}
		})(s, store)
	}},
	"resumes nothing": {[]string{"Locker/L22_TakenOverLeaseIsLost"}, onResume(
		func(_ context.Context, _ *memlock.Driver, c fence.Claim, r driver.Request) (driver.Grant, error) {
			return driver.Grant{Token: c.Token + 1, TTL: r.TTL}, nil
		})},
}
