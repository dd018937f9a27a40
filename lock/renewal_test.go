package lock_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestL05_RenewalCountsFromItsSendTime has the answers take their time, of automatic ones and of Renew.
func TestL05_RenewalCountsFromItsSendTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan time.Time, 100)
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			sent <- time.Now()
			errs := next(ctx, rs)
			time.Sleep(2 * time.Second)
			return errs
		}
		lease := acquire(t, newLocker(t, d, lock.WithTTL(9*time.Second)), "r")
		last := time.Now()
		for range 5 {
			at := <-sent
			assert.LessOrEqual(t, at.Sub(last), 3*time.Second, "they come every third of the TTL")
			last = at
			time.Sleep(2100 * time.Millisecond)
			assert.Equal(t, at.Add(8910*time.Millisecond), lease.Deadline())
		}
		require.NoError(t, lease.Renew(t.Context(), time.Minute))
		assert.Contains(t, []time.Duration{57400 * time.Millisecond}, time.Until(lease.Deadline()))
	})
}

// TestL07_OneHangingRenewalEndsNothing has each first one hang: of Renew, or automatic.
func TestL07_OneHangingRenewalEndsNothing(t *testing.T) {
	for _, hangs := range []string{"Renew", "an automatic one"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				d := &locktest.Scripted{Driver: memlock.New()}
				d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
					if calls.Add(1) == 1 {
						time.Sleep(time.Hour) // it looks at nothing
					}
					return next(ctx, rs)
				}
				lease := acquire(t, newLocker(t, d, lock.WithTTL(3*time.Second)), "r")
				if hangs == "Renew" {
					require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrUnavailable)
				}
				time.Sleep(time.Minute)
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release(t.Context()))
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestL07_FailedRenewalsAreTriedAgainEachSecond until the deadline is near, and then more often.
func TestL07_FailedRenewalsAreTriedAgainEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(context.Context, []driver.Renewal, locktest.RenewFunc) []error {
			times = append(times, time.Now())
			return nil // which is no answer either
		}
		lease := acquire(t, newLocker(t, d, lock.WithTTL(90*time.Second)), "r")
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		synctest.Wait()
		for i, at := range times[1:] {
			assert.LessOrEqual(t, at.Sub(times[i]), time.Second)
			assert.GreaterOrEqual(t, at.Sub(times[i]), 5*time.Millisecond)
		}
		assert.Less(t, time.Since(times[len(times)-1]), 10*time.Millisecond)
	})
}

// TestL13_AnswersUpToTheTimeoutCount has a driver give them when its context ends, as one does that waits for another
// part of its store.
func TestL13_AnswersUpToTheTimeoutCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			errs := next(ctx, rs)
			<-ctx.Done()
			return errs
		}
		l := newLocker(t, d, lock.WithTTL(3*time.Second))
		lease := acquire(t, l, "r")
		for range 20 {
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
		}
	})
}

// TestClose_EndsRenewalsUnderWay tells the driver, and does not wait for one that doesn't care.
func TestClose_EndsRenewalsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan time.Time, 1)
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, _ locktest.RenewFunc) []error {
			<-ctx.Done()
			told <- time.Now()
			time.Sleep(time.Hour)
			return make([]error, len(rs))
		}
		l := newLocker(t, d, lock.WithTTL(time.Hour))
		acquire(t, l, "r")
		time.Sleep(21 * time.Minute)
		start := time.Now()
		require.NoError(t, l.Close(t.Context()))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, start, <-told)
		time.Sleep(time.Hour)
	})
}

// TestL13_BatchOfAHungRenewalIsNotUsedAgain has the driver look at it when others have been renewed since.
func TestL13_BatchOfAHungRenewalIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if rs[0].Claim.Resource == "hangs" {
				time.Sleep(5 * time.Second)
				assert.Equal(t, "hangs", rs[0].Claim.Resource)
			}
			return next(ctx, rs)
		}
		l := newLocker(t, d)
		acquire(t, l, "hangs", lock.WithTTL(3*time.Second))
		acquire(t, l, "s", lock.WithTTL(300*time.Millisecond))
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Close(t.Context()))
	})
}

// TestRenew_EndsWithTheLease has it hang, and the lease be released meanwhile.
func TestRenew_EndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			time.Sleep(5 * time.Second)
			return make([]error, len(rs))
		}
		l := newLocker(t, d, lock.WithObserver(j.observer()))
		lease := acquire(t, l, "r")
		start := time.Now()
		time.AfterFunc(time.Second, func() { assert.NoError(t, lease.Release(context.Background())) })
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrReleased)
		assert.Equal(t, time.Second, time.Since(start))

		synctest.Wait()
		acquire(t, l, "r", lock.WithTTL(12*time.Second))
		time.Sleep(5 * time.Second) // an automatic one is under way
		require.NoError(t, l.Close(t.Context()))
		time.Sleep(5 * time.Second)
		names, _ := j.take()
		assert.Equal(t, []string{"acquired", "released", "acquired", "released"}, names)
	})
}

// TestRenew_WaitsForAnotherUntilItsContextEnds has an automatic one hang.
func TestRenew_WaitsForAnotherUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			time.Sleep(5 * time.Second)
			return next(ctx, rs)
		}
		lease := acquire(t, newLocker(t, d), "r")
		time.Sleep(11 * time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, lease.Renew(ctx, time.Minute), context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		require.NoError(t, lease.Release(t.Context()))
		time.Sleep(5 * time.Second)
	})
}

// TestRenew_ThatSentNothingPinsNothing has its context be over before it could shorten.
func TestRenew_ThatSentNothingPinsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := acquire(t, newLocker(t, memlock.New()), "r")
		before := lease.Deadline()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, lease.Renew(ctx, time.Second), context.Canceled)
		assert.Equal(t, before, lease.Deadline())
		require.NoError(t, lease.Renew(t.Context(), time.Minute))
	})
}

// TestL20_PinnedLeaseIsNotRenewed has a shortening be in doubt, with automatic renewals to come.
func TestL20_PinnedLeaseIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			errs := next(ctx, rs)
			if calls.Add(1) == 1 {
				return []error{errBroken}
			}
			return errs
		}
		l := newLocker(t, d, lock.WithTTL(3*time.Second), lock.WithRenewEvery(500*time.Millisecond))
		start := time.Now()
		lease := acquire(t, l, "r")
		require.ErrorIs(t, lease.Renew(t.Context(), 2*time.Second), lock.ErrUnavailable)
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		assert.Equal(t, 1980*time.Millisecond, time.Since(start))
		assert.EqualValues(t, 1, calls.Load())
	})
}

// TestRenew_ThatFailsStartsNoAutomaticOnes is for a lease without them.
func TestRenew_ThatFailsStartsNoAutomaticOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if calls.Add(1) == 1 {
				return []error{errBroken}
			}
			return next(ctx, rs)
		}
		start := time.Now()
		lease := acquire(t, newLocker(t, d, lock.WithoutRenewal()), "r")
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrUnavailable)
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		assert.Equal(t, 29700*time.Millisecond, time.Since(start))
		assert.EqualValues(t, 1, calls.Load())
	})
}

// TestL20_AutomaticRenewalNeverShortens is for a lease that was resumed with more left than the TTL it is renewed by.
func TestL20_AutomaticRenewalNeverShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		start := time.Now()
		claim := acquire(t, l, "r", lock.WithTTL(10*time.Minute)).Detach()
		lease, err := l.Resume(t.Context(), claim, lock.WithRenewEvery(3*time.Second))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, start.Add(594*time.Second), lease.Deadline())
		time.Sleep(time.Hour)
		require.NoError(t, lease.Err())
	})
}

// TestL13_EachLeaseIsRenewedInItsOwnTime has leases of many TTLs in one heap.
func TestL13_EachLeaseIsRenewedInItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		last, longest := map[string]time.Time{}, map[string]time.Duration{}
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range rs {
				name := r.Claim.Resource
				longest[name] = max(longest[name], time.Since(last[name]))
				last[name] = time.Now()
			}
			return next(ctx, rs)
		}
		l := newLocker(t, d)
		ttls := map[string]time.Duration{"a": 30 * time.Second, "b": 75 * time.Second, "c": time.Minute, "d": 3 * time.Second}
		for name, ttl := range ttls {
			last[name] = time.Now()
			acquire(t, l, name, lock.WithTTL(ttl))
		}
		time.Sleep(20 * time.Minute)
		require.NoError(t, l.Close(t.Context()))
		for name, ttl := range ttls {
			assert.LessOrEqual(t, longest[name], ttl/3, name)
		}
	})
}

// TestLogger has what went wrong be told.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		d := locktest.ScriptAll(memlock.New())
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if fail.Load() {
				return []error{errBroken}
			}
			return next(ctx, rs)
		}
		var log logged
		l := newLocker(t, d, lock.WithLogger(slog.New(&log)), lock.WithoutRenewal())
		lease := acquire(t, l, "r")
		require.NoError(t, lease.Renew(t.Context(), time.Minute))
		fail.Store(true)
		require.Error(t, lease.Renew(t.Context(), time.Minute))
		assert.Equal(t, []string{"WARN renewal failed"}, log.take())
		fail.Store(false)
		_, err := l.Break(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, []string{"WARN lease broken"}, log.take())
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
		assert.Equal(t, []string{"WARN lease lost"}, log.take())
		require.NoError(t, acquire(t, l, "r").Release(t.Context()))
		assert.Empty(t, log.take())
		assert.NotContains(t, log.text, lease.Claim().Holder.String(), "the holder is a secret")
	})
}

// logged is a slog.Handler that keeps what it is given.
type logged struct {
	slog.Handler
	mu       sync.Mutex
	messages []string
	text     string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, r.Level.String()+" "+r.Message)
	r.Attrs(func(a slog.Attr) bool { l.text += a.String() + "\n"; return true })
	return nil
}

func (l *logged) take() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.messages
	l.messages = nil
	return taken
}

// TestL09_ReleaseOfALostLease says so once, and as such.
func TestL09_ReleaseOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		l := newLocker(t, d)
		gone := acquire(t, l, "r")
		require.NoError(t, d.Release(t.Context(), gone.Claim(), 0))
		err := gone.Release(t.Context())
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
		expired := acquire(t, l, "r", lock.WithTTL(time.Second), lock.WithoutRenewal())
		require.ErrorIs(t, endOf(expired), lock.ErrLost)
		assert.Equal(t, expired.Claim(), expired.Detach(), "it has ended before: nothing changes")
		require.ErrorIs(t, expired.Release(t.Context()), lock.ErrLost)
		require.ErrorIs(t, expired.Release(t.Context()), lock.ErrReleased)
	})
}

// TestL21_MinHoldIsTheSameAfterRetries counts from the grant's reply, that takes 1 s, and has the release fail for 4 s.
func TestL21_MinHoldIsTheSameAfterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		d := &locktest.Scripted{Driver: store}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			time.Sleep(200 * time.Millisecond)
			return g, err
		}
		start := time.Now()
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if time.Since(start) < 4*time.Second {
				return errBroken
			}
			return next(ctx, c, keep)
		}
		lease := acquire(t, newLocker(t, d, lock.WithMinHold(10*time.Second)), "r")
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrUnavailable)
		time.Sleep(6 * time.Second)
		_, err := newLocker(t, store).TryAcquire(t.Context(), "r")
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, 10*time.Second+200*time.Millisecond, time.Since(start)+held.RetryAfter)
	})
}

// TestLease_BindLeavesNothingBehind has it be called for each of many requests under one lease.
func TestLease_BindLeavesNothingBehind(t *testing.T) {
	lease := acquire(t, newLocker(t, memlock.New()), "r")
	request := func() weak.Pointer[[1 << 16]byte] {
		body := new([1 << 16]byte)
		bound, done := lease.Bind(context.WithValue(t.Context(), valueKey{}, body))
		done()
		require.ErrorIs(t, bound.Err(), context.Canceled)
		return weak.Make(body)
	}()
	runtime.GC()
	assert.Nil(t, request.Value())
	require.NoError(t, lease.Release(t.Context()))
	bound, done := lease.Bind(t.Context())
	defer done()
	require.ErrorIs(t, context.Cause(bound), lock.ErrReleased)
	require.ErrorIs(t, context.Cause(bound), context.Canceled)
}
