package lock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestAcquireAll_DeadlineIsTheFirstOfTheMembers has them be renewed one after the other.
func TestAcquireAll_DeadlineIsTheFirstOfTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu   sync.Mutex
			sent = map[string]time.Time{}
		)
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			sent[r.Resource] = time.Now()
			time.Sleep(3 * time.Second)
			return next(ctx, r)
		}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range rs {
				sent[r.Claim.Resource] = time.Now()
			}
			return next(ctx, rs)
		}
		set, err := newLocker(t, d).AcquireAll(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		for range 60 {
			time.Sleep(time.Second + time.Microsecond)
			synctest.Wait()
			mu.Lock()
			first := sent["a"]
			for _, at := range sent {
				if at.Before(first) {
					first = at
				}
			}
			mu.Unlock()
			require.Equal(t, first.Add(29700*time.Millisecond), set.Deadline())
		}
		require.NoError(t, set.Release(t.Context()))
	})
}

// TestL21_MemberThatEndsWithItsSetKeepsItsMinHold and the set says who was the first.
func TestL21_MemberThatEndsWithItsSetKeepsItsMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithMinHold(20*time.Second))
		start := time.Now()
		set, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		_, err = l.Break(t.Context(), "b")
		require.NoError(t, err)
		<-set.Context().Done()
		require.ErrorContains(t, set.Err(), `"b"`)
		require.NotContains(t, set.Err().Error(), "with its set")
		synctest.Wait()
		_, err = l.TryAcquire(t.Context(), "a")
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, 20*time.Second, time.Since(start)+held.RetryAfter)
	})
}
