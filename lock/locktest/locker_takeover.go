package locktest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
)

// lockerResumeCases are what package lock makes of a driver that hands leases over.
func lockerResumeCases() []testCase {
	return []testCase{
		{"Locker/L22_DetachedLeaseIsResumed", (*suite).detachedLeaseIsResumed},
		{"Locker/L22_DoubleClickResumesOnce", (*suite).doubleClickResumesOnce},
		{"Locker/L22_TakenOverLeaseIsLost", (*suite).takenOverLeaseIsLost},
	}
}

// lockerBreakCases are what package lock makes of a driver from which leases can be taken.
func lockerBreakCases() []testCase {
	return []testCase{
		{"Locker/L23_BrokenLeaseIsLost", (*suite).brokenLeaseIsLost},
		{"Locker/L23_BreakHitsOnlyWhoIsMeant", (*suite).lockerBreaksOnlyWhoIsMeant},
	}
}

// lockerBreakQueueCases are about those in line.
func lockerBreakQueueCases() []testCase {
	return []testCase{
		{"Locker/L23_BreakLetsTheNextIn", timed((*suite).breakLetsTheNextIn)},
	}
}

// detachedLeaseIsResumed has the Locker closed in between, as a deploy does.
func (s *suite) detachedLeaseIsResumed() {
	before, after := s.locker(lock.WithTTL(s.long)), s.locker()
	lease, err := before.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	claim := lease.Detach()
	require.NoError(s, before.Close(s.ctx))
	require.ErrorIs(s, lease.Release(s.ctx), lock.ErrReleased)
	s.requireHeld(s.resource)

	next, err := after.Resume(s.ctx, claim)
	require.NoError(s, err)
	assert.Greater(s, next.Token(), claim.Token)
	assert.NotEqual(s, claim.Holder, next.Claim().Holder)
	assert.LessOrEqual(s, time.Until(next.Deadline()), s.long)
	_, err = after.Resume(s.ctx, claim)
	require.ErrorIs(s, err, lock.ErrLost)
	edited := next.Claim()
	edited.Token++
	_, err = after.Resume(s.ctx, edited)
	require.ErrorIs(s, err, lock.ErrLost)
	require.NoError(s, next.Err())
	require.NoError(s, next.Renew(s.ctx, s.long))
	require.NoError(s, next.Release(s.ctx))
	_, err = after.Resume(s.ctx, next.Claim())
	require.ErrorIs(s, err, lock.ErrLost)
	s.acquire(s.resource, s.long)
}

func (s *suite) doubleClickResumesOnce() {
	lockers := []*lock.Locker{s.locker(lock.WithTTL(s.long)), s.locker()}
	lease, err := lockers[0].Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	claim := lease.Detach()
	var (
		clicks  sync.WaitGroup
		resumed atomic.Int32
	)
	for i := range 8 {
		clicks.Go(func() {
			if _, err := lockers[i%2].Resume(s.ctx, claim); err == nil {
				resumed.Add(1)
			} else {
				assert.ErrorIs(s, err, lock.ErrLost)
			}
		})
	}
	clicks.Wait()
	assert.EqualValues(s, 1, resumed.Load())
}

// takenOverLeaseIsLost resumes a lease that is managed elsewhere.
func (s *suite) takenOverLeaseIsLost() {
	here, there := s.locker(lock.WithTTL(s.short)), s.locker(lock.WithTTL(s.short))
	old, err := here.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	lease, err := there.Resume(s.ctx, old.Claim(), lock.WithTTL(s.long))
	require.NoError(s, err)
	s.requireEnds(old.Context(), lock.ErrLost)
	require.ErrorIs(s, old.Release(s.ctx), lock.ErrLost)
	require.NoError(s, here.Close(s.ctx)) // and with it what was still to be cleaned up
	s.requireHeld(s.resource)
	require.NoError(s, lease.Release(s.ctx))
}

func (s *suite) brokenLeaseIsLost() {
	l, admin := s.locker(lock.WithTTL(s.short)), s.locker()
	old, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	claim, err := admin.Break(s.ctx, s.resource, lock.IfHeldBy(fence.Fingerprint(old.Claim().Holder)))
	require.NoError(s, err)
	assert.Equal(s, s.resource, claim.Resource)
	assert.Greater(s, claim.Token, old.Token())
	next := s.acquire(s.resource, s.long)
	assert.Greater(s, next.Token, claim.Token)
	s.requireEnds(old.Context(), lock.ErrLost)
	require.ErrorIs(s, old.Release(s.ctx), lock.ErrLost)
	require.NoError(s, l.Close(s.ctx)) // and with it what was still to be cleaned up
	s.requireHeld(s.resource)
	s.release(next)
}

func (s *suite) lockerBreaksOnlyWhoIsMeant() {
	l := s.locker(lock.WithTTL(s.long))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	_, err = l.Break(s.ctx, s.resource, lock.IfHeldBy(fence.Fingerprint(uuid.New())))
	require.ErrorIs(s, err, lock.ErrLost)
	require.NoError(s, lease.Renew(s.ctx, s.long))
	require.NoError(s, lease.Release(s.ctx))
}

func (s *suite) breakLetsTheNextIn() {
	d := s.watched()
	old := s.acquire(s.resource, s.long)
	a := s.inLine(s.ctx, s.lockerOn(d), d)
	s.settle()
	began := time.Now()
	claim, err := s.locker().Break(s.ctx, s.resource)
	require.NoError(s, err)
	lease := s.requireWithin(500*time.Millisecond, began, a)
	assert.Greater(s, lease.Token(), claim.Token)
	require.ErrorIs(s, s.d.Release(s.ctx, old, 0), lock.ErrLost)
}
