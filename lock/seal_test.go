package lock_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// ahead refuses a claim as stale, with a mark by that much above its token; what and how often is up to the test.
func ahead(by fence.Token, c fence.Claim) error {
	return &fence.RejectedError{Claim: c, Mark: c.Token + by, Verdict: fence.ErrStale}
}

// TestL19_MarkThatMovesMeanwhile is chased three times, and no more.
func TestL19_MarkThatMovesMeanwhile(t *testing.T) {
	l := newLocker(t, memlock.New())
	for refuses, heals := range map[int]bool{1: true, 3: true, 4: false, 100: false} {
		guard := memguard.New()
		calls := 0
		lease, err := l.Acquire(t.Context(), "a", lock.WithSeal(sealFunc(func(ctx context.Context, c fence.Claim) error {
			if calls++; calls <= refuses {
				mark := fence.Claim{Resource: "a", Token: c.Token + 1_000_000, Holder: uuid.New()}
				assert.NoError(t, guard.Admit(ctx, mark))
			}
			return guard.Admit(ctx, c)
		})))
		assert.LessOrEqual(t, calls, 4)
		if heals {
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		} else {
			require.ErrorIs(t, err, fence.ErrStale)
		}
	}
}

// TestL19_DuplicateIsLiftedPastBoth has the mark be below its own token, or above.
func TestL19_DuplicateIsLiftedPastBoth(t *testing.T) {
	for _, by := range []fence.Token{-1_000, 1_000_000_000_000} {
		l := newLocker(t, memlock.New())
		var refused fence.Claim
		lease := acquire(t, l, "a", lock.WithSeal(sealFunc(func(_ context.Context, c fence.Claim) error {
			if refused.Token == 0 {
				refused = c
				return &fence.RejectedError{Claim: c, Mark: c.Token + by, Verdict: fence.ErrDuplicate}
			}
			return nil
		})))
		assert.Greater(t, lease.Token(), max(refused.Token, refused.Token+by))
	}
}

// TestL19_NothingIsLifted when the lease is over, the store can't do it, or answers a token that is not above the mark.
func TestL19_NothingIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			advances atomic.Int32
			answer   fence.Token
		)
		d := locktest.ScriptAll(memlock.New())
		d.OnAdvance = func(_ context.Context, _ fence.Claim, past fence.Token, _ locktest.AdvanceFunc) (fence.Token, error) {
			advances.Add(1)
			return past + answer, nil
		}
		late := sealFunc(func(_ context.Context, c fence.Claim) error {
			time.Sleep(2 * time.Second)
			return ahead(7, c)
		})
		refusing := sealFunc(func(_ context.Context, c fence.Claim) error { return ahead(7, c) })
		l := newLocker(t, d)
		_, err := l.Acquire(t.Context(), "a", lock.WithSeal(late), lock.WithTTL(time.Second), lock.WithoutRenewal())
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, context.Canceled)
		assert.Zero(t, advances.Load())

		for _, answer = range []fence.Token{0, -1} {
			_, err = l.Acquire(t.Context(), "a", lock.WithSeal(refusing))
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.ErrorContains(t, err, "stale", "what the guard said")
			require.NotErrorIs(t, err, fence.ErrStale, "a retry may help")
		}
		assert.EqualValues(t, 2, advances.Load())

		can := newLocker(t, memlock.New())
		_, err = can.Acquire(t.Context(), "a", lock.WithSeal(sealFunc(func(_ context.Context, c fence.Claim) error {
			return ahead(math.MaxInt64-c.Token, c)
		})))
		require.ErrorIs(t, err, lock.ErrExhausted)
		require.ErrorContains(t, err, "stale")

		cant := newLocker(t, &d.Scripted)
		_, err = cant.Acquire(t.Context(), "a", lock.WithSeal(refusing))
		require.ErrorIs(t, err, fence.ErrStale)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
		require.NoError(t, acquire(t, cant, "a", lock.WithoutWaiting()).Release(t.Context()))
	})
}

// TestL18_FailedSealFreesTheResource in the background if it can't at once: the release fails, or the context has ended.
func TestL18_FailedSealFreesTheResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var releases atomic.Int32
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if releases.Add(1) == 1 {
				return errBroken
			}
			return next(ctx, c, keep)
		}
		l := newLocker(t, d, lock.WithMinHold(10*time.Second))
		refusing := sealFunc(func(context.Context, fence.Claim) error { return fence.ErrStale })
		_, err := l.Acquire(t.Context(), "a", lock.WithSeal(refusing))
		require.ErrorIs(t, err, fence.ErrStale)
		time.Sleep(time.Second)
		assert.EqualValues(t, 2, releases.Load())

		releases.Store(1)
		ctx, cancel := context.WithCancel(t.Context())
		_, err = l.Acquire(ctx, "a", lock.WithSeal(sealFunc(func(context.Context, fence.Claim) error { cancel(); return fence.ErrStale })))
		require.ErrorIs(t, err, fence.ErrStale)
		synctest.Wait()
		assert.EqualValues(t, 2, releases.Load())
		acquire(t, l, "a", lock.WithoutWaiting())
	})
}
