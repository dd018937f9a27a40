package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Run judges a driver: the protocol of package driver first, then what package lock makes of it.
// fresh is called once for each case and may return drivers on one store; the suite uses resource
// names of its own. Cases run in parallel.
func Run(t *testing.T, fresh func(t *testing.T) driver.Driver) {
	cases := []struct {
		name string
		run  func(s *suite)
	}{
		{"L01_FreeResourceIsGranted", (*suite).freeResourceIsGranted},
		{"L02_OnlyTheHolderReleases", (*suite).onlyTheHolderReleases},
		{"L02_OnlyTheHolderRenews", (*suite).onlyTheHolderRenews},
		{"L02_RenewAnswersEachInOrder", (*suite).renewAnswersEachInOrder},
		{"L03_ReplayReturnsTheStoredToken", (*suite).replayReturnsTheStoredToken},
		{"L04_AbandonEndsTheLease", (*suite).abandonEndsTheLease},
		{"L04_TombstoneStopsALateAcquire", (*suite).tombstoneStopsALateAcquire},
		{"C05_EndedContextSendsNothing", (*suite).endedContextSendsNothing},
		{"L14_LeaseExpires", (*suite).leaseExpires},
		{"L14_RenewalSetsTheEnd", (*suite).renewalSetsTheEnd},
		{"L16_NamesAreApart", (*suite).namesAreApart},
		{"L17_TokensRise", (*suite).tokensRise},
		{"L21_KeepLeavesItTaken", (*suite).keepLeavesItTaken},
		{"OneHolderAtATime", (*suite).oneHolderAtATime},
		{"Locker/L05_LossIsTold", (*suite).lossIsTold},
		{"Locker/L09_ReleaseIgnoresTheContext", (*suite).releaseIgnoresTheContext},
		{"Locker/L13_LeaseIsRenewed", (*suite).leaseIsRenewed},
		{"Locker/C19_StaleReleaseTouchesNobody", (*suite).staleReleaseTouchesNobody},
		{"Locker/AcquireWaitsForRelease", (*suite).acquireWaitsForRelease},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			t.Cleanup(cancel)
			d := fresh(t)
			step := max(d.Features().TTLStep, time.Millisecond)
			c.run(&suite{
				T: t, ctx: ctx, d: d,
				short: max(300*time.Millisecond, step), long: 20 * time.Second,
				resource: "locktest/" + uuid.NewString(),
			})
		})
	}
}

// suite is one case's surroundings.
type suite struct {
	*testing.T
	ctx      context.Context
	d        driver.Driver
	short    time.Duration // a TTL to wait for
	long     time.Duration // a TTL that doesn't end within the case
	resource string        // nobody else's
}

// acquire makes one try for a fresh holder that must succeed.
func (s *suite) acquire(resource string, ttl time.Duration) fence.Claim {
	s.Helper()
	return s.acquireAs(uuid.New(), resource, ttl)
}

func (s *suite) acquireAs(holder uuid.UUID, resource string, ttl time.Duration) fence.Claim {
	s.Helper()
	g, err := s.try(s.ctx, holder, resource, ttl)
	require.NoError(s, err)
	require.Positive(s, int64(g.Token))
	return fence.Claim{Resource: resource, Token: g.Token, Holder: holder}
}

func (s *suite) try(ctx context.Context, holder uuid.UUID, resource string, ttl time.Duration) (driver.Grant, error) {
	return s.d.Acquire(ctx, driver.Request{Resource: resource, Holder: holder, TTL: ttl, Label: "locktest"})
}

// requireHeld says that nobody can acquire, and returns what is left of the lease by the store.
func (s *suite) requireHeld(resource string) time.Duration {
	s.Helper()
	_, err := s.try(s.ctx, uuid.New(), resource, s.long)
	var held *driver.Held
	require.ErrorAs(s, err, &held)
	return held.RetryAfter
}

// acquireWhenFree tries until another's lease has ended by itself.
func (s *suite) acquireWhenFree(resource string) fence.Claim {
	s.Helper()
	holder := uuid.New()
	for {
		g, err := s.try(s.ctx, holder, resource, s.long)
		var held *driver.Held
		if !errors.As(err, &held) {
			require.NoError(s, err)
			return fence.Claim{Resource: resource, Token: g.Token, Holder: holder}
		}
		s.wait(5 * time.Millisecond)
	}
}

// wait lets time pass, which a store's expiry needs: there is no event to wait for.
func (s *suite) wait(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		require.NoError(s, s.ctx.Err())
	}
}

func (s *suite) renew(c fence.Claim, ttl time.Duration, shorten bool) error {
	s.Helper()
	errs := s.d.Renew(s.ctx, []driver.Renewal{{Claim: c, TTL: ttl, Shorten: shorten}})
	require.Len(s, errs, 1)
	return errs[0]
}

func (s *suite) release(c fence.Claim) {
	s.Helper()
	require.NoError(s, s.d.Release(s.ctx, c, 0))
}
