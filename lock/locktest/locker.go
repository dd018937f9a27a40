package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
)

// lockerCases are what package lock makes of every driver.
func lockerCases() []testCase {
	return []testCase{
		{"Locker/L05_LossIsTold", (*suite).lossIsTold},
		{"Locker/L09_ReleaseIgnoresTheContext", (*suite).releaseIgnoresTheContext},
		{"Locker/L13_LeaseIsRenewed", timed((*suite).leaseIsRenewed)},
		{"Locker/C19_StaleReleaseTouchesNobody", (*suite).staleReleaseTouchesNobody},
		{"Locker/AcquireWaitsForRelease", (*suite).acquireWaitsForRelease},
	}
}

// locker returns one on the driver, that is closed at the end.
func (s *suite) locker(opts ...lock.Option) *lock.Locker {
	s.Helper()
	return s.lockerOn(s.d, opts...)
}

func (s *suite) lockerOn(d driver.Driver, opts ...lock.Option) *lock.Locker {
	s.Helper()
	l, err := lock.New(d, opts...)
	require.NoError(s, err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			assert.ErrorIs(s, err, lock.ErrClosed)
		}
	})
	return l
}

// requireEnds waits until ctx ends, with that cause.
func (s *suite) requireEnds(ctx context.Context, why error) {
	s.Helper()
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
		require.Fail(s, "the loss was not told")
	}
	cause := context.Cause(ctx)
	require.ErrorIs(s, cause, why)
	require.ErrorIs(s, cause, context.Canceled)
}

// lossIsTold has the lease end in the store behind its holder's back.
func (s *suite) lossIsTold() {
	l := s.locker(lock.WithTTL(s.short))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	require.NoError(s, s.d.Release(s.ctx, lease.Claim(), 0))
	s.requireEnds(lease.Context(), lock.ErrLost)
	require.ErrorIs(s, lease.Err(), lock.ErrLost)
	require.ErrorIs(s, lease.Release(s.ctx), lock.ErrLost)
}

func (s *suite) releaseIgnoresTheContext() {
	l := s.locker()
	ctx, cancel := context.WithCancel(s.ctx)
	lease, err := l.Acquire(ctx, s.resource)
	require.NoError(s, err)
	cancel()
	require.NoError(s, lease.Release(ctx))
	require.ErrorIs(s, lease.Release(ctx), lock.ErrReleased)
	again, err := l.TryAcquire(s.ctx, s.resource)
	require.NoError(s, err)
	require.ErrorIs(s, lease.Release(ctx), lock.ErrReleased)
	s.requireHeld(s.resource)
	require.NoError(s, again.Err())
}

func (s *suite) leaseIsRenewed() {
	l := s.locker(lock.WithTTL(s.short))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	for end := time.Now().Add(3 * s.short); time.Now().Before(end); {
		s.pass(s.short / 10)
		require.NoError(s, lease.Err())
		s.requireHeld(s.resource)
	}
	require.NoError(s, lease.Release(s.ctx))
	s.acquire(s.resource, s.long)
}

func (s *suite) staleReleaseTouchesNobody() {
	l := s.locker(lock.WithTTL(s.short), lock.WithoutRenewal())
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	next := s.acquireWhenFree(s.resource)
	require.ErrorIs(s, lease.Renew(s.ctx, s.long), lock.ErrLost)
	require.ErrorIs(s, lease.Release(s.ctx), lock.ErrLost)
	require.ErrorIs(s, lease.Release(s.ctx), lock.ErrReleased)
	require.NoError(s, l.Close(s.ctx)) // and with it what was still to be cleaned up
	s.requireHeld(s.resource)
	s.release(next)
}

func (s *suite) acquireWaitsForRelease() {
	l := s.locker(lock.WithTTL(s.long))
	first, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	_, err = l.TryAcquire(s.ctx, s.resource)
	var held *lock.HeldError
	require.ErrorAs(s, err, &held)
	require.Equal(s, s.resource, held.Resource)

	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := l.Acquire(s.ctx, s.resource)
		assert.NoError(s, err)
		got <- lease
	}()
	select {
	case <-got:
		require.Fail(s, "two holders at once")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(s, first.Release(s.ctx))
	second := <-got
	require.NotNil(s, second)
	assert.Greater(s, second.Token(), first.Token())
	require.NoError(s, second.Release(s.ctx))
}
