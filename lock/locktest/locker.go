package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
)

func (s *suite) locker(opts ...lock.Option) *lock.Locker {
	s.Helper()
	l, err := lock.New(s.d, opts...)
	require.NoError(s, err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(s, l.Close(ctx))
	})
	return l
}

// lossIsTold has the lease end in the store behind its holder's back.
func (s *suite) lossIsTold() {
	l := s.locker(lock.WithTTL(s.short))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	require.NoError(s, s.d.Release(s.ctx, lease.Claim(), 0))
	select {
	case <-lease.Context().Done():
	case <-s.ctx.Done():
		require.Fail(s, "the loss was not told")
	}
	cause := context.Cause(lease.Context())
	require.ErrorIs(s, cause, lock.ErrLost)
	require.ErrorIs(s, cause, context.Canceled)
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
		s.wait(s.short / 10)
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

	got := make(chan *lock.Lease)
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
