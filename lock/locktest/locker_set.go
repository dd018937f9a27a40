package locktest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
)

// setCases are about AcquireAll.
func setCases() []testCase {
	return []testCase{
		{"Locker/SetIsAllOrNone", (*suite).setIsAllOrNone},
		{"Locker/SetsNeverDeadlock", (*suite).setsNeverDeadlock},
		{"Locker/LostMemberEndsTheSet", (*suite).lostMemberEndsTheSet},
	}
}

func (s *suite) setIsAllOrNone() {
	l := s.locker()
	a, b, c := s.resource+"/a", s.resource+"/b", s.resource+"/c"
	other := s.acquire(b, s.long)
	_, err := l.AcquireAll(s.ctx, []string{c, a, b}, lock.WithoutWaiting())
	var held *lock.HeldError
	require.ErrorAs(s, err, &held)
	assert.Equal(s, b, held.Resource)
	s.release(s.acquireWhenFree(a))
	s.release(s.acquireWhenFree(c))
	s.release(other)

	set, err := l.AcquireAll(s.ctx, []string{c, a, b, a})
	require.NoError(s, err)
	claims := set.Claims()
	require.Len(s, claims, 3)
	for i, name := range []string{a, b, c} {
		assert.Equal(s, name, claims[i].Resource)
		s.requireHeld(name)
	}
	assert.Equal(s, claims, fence.Claims(set.Context()))
	require.NoError(s, set.Release(s.ctx))
	for _, name := range []string{a, b, c} {
		s.acquire(name, s.long)
	}
	require.ErrorIs(s, set.Release(s.ctx), lock.ErrReleased)
}

// setsNeverDeadlock has sets that overlap in a circle.
func (s *suite) setsNeverDeadlock() {
	const sets, each = 4, 5
	lockers := []*lock.Locker{s.locker(), s.locker()}
	name := func(i int) string { return s.resource + "/" + string(rune('a'+i%sets)) }
	var (
		all    sync.WaitGroup
		inside [sets]atomic.Int32
	)
	for i := range sets {
		all.Go(func() {
			for range each {
				set, err := lockers[i%2].AcquireAll(s.ctx, []string{name(i), name(i + 1)})
				if !assert.NoError(s, err) {
					return
				}
				for _, j := range []int{i, (i + 1) % sets} {
					assert.EqualValues(s, 1, inside[j].Add(1), "two holders at once")
				}
				s.pass(time.Millisecond)
				for _, j := range []int{i, (i + 1) % sets} {
					inside[j].Add(-1)
				}
				assert.NoError(s, set.Release(s.ctx))
			}
		})
	}
	all.Wait()
}

func (s *suite) lostMemberEndsTheSet() {
	l := s.locker(lock.WithTTL(s.short))
	names := []string{s.resource + "/a", s.resource + "/b", s.resource + "/c"}
	set, err := l.AcquireAll(s.ctx, names)
	require.NoError(s, err)
	s.release(set.Claims()[1])
	s.requireEnds(set.Context(), lock.ErrLost)
	require.ErrorIs(s, set.Err(), lock.ErrLost)
	for _, name := range names {
		s.acquireWhenFree(name)
	}
	require.ErrorIs(s, set.Release(s.ctx), lock.ErrLost)
}
