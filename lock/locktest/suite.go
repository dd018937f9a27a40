package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// suite is one case's surroundings.
type suite struct {
	tb
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
	return s.d.Acquire(ctx, request(resource, holder, ttl))
}

func request(resource string, holder uuid.UUID, ttl time.Duration) driver.Request {
	return driver.Request{Resource: resource, Holder: holder, TTL: ttl, Label: "locktest"}
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
		s.pass(5 * time.Millisecond)
	}
}

// pass lets time pass, which a store's expiry needs: there is no event to wait for.
func (s *suite) pass(d time.Duration) {
	s.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		require.NoError(s, s.ctx.Err())
	}
}

// expire has the lease of c end by itself, and returns when it has. It leaves the resource alone then.
func (s *suite) expire(c fence.Claim) {
	s.Helper()
	require.NoError(s, s.renew(c, s.short, true))
	s.passBy(c.Resource)
}

// passBy returns when what has the resource now has ended by itself.
func (s *suite) passBy(resource string) {
	s.Helper()
	left := s.requireHeld(resource)
	if left == 0 { // the store doesn't know
		left = s.short
	}
	s.pass(left + 10*time.Millisecond)
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

// abandon is Release with token 0.
func (s *suite) abandon(resource string, holder uuid.UUID) {
	s.Helper()
	require.NoError(s, s.d.Release(s.ctx, fence.Claim{Resource: resource, Holder: holder}, 0))
}

// requireAbandoned says that err is what a holder gets that finds its tombstone.
func (s *suite) requireAbandoned(err error) {
	s.Helper()
	var held *driver.Held
	var queued *driver.Queued
	require.Error(s, err)
	require.NotErrorAs(s, err, &held)
	require.NotErrorAs(s, err, &queued)
	require.NoError(s, s.ctx.Err())
}
