package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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

var errBroken = errors.New("the store is broken")

func TestL05_DeadlineIsTheSendTimePlusTTLLessAMargin(t *testing.T) {
	for _, row := range []struct{ ttl, margin time.Duration }{
		{20 * time.Millisecond, 5 * time.Millisecond},
		{500 * time.Millisecond, 5 * time.Millisecond},
		{30 * time.Second, 300 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := &locktest.Scripted{Driver: memlock.New()}
			slow.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
				g, err := next(ctx, r)
				time.Sleep(min(row.ttl/4, time.Second)) // the reply takes its time
				return g, err
			}
			l := newLocker(t, slow, lock.WithTTL(row.ttl), lock.WithoutRenewal())
			sent := time.Now()
			lease := acquire(t, l, "a")
			assert.Equal(t, sent.Add(row.ttl-row.margin), lease.Deadline())
			require.NoError(t, lease.Err())

			require.ErrorIs(t, endOf(lease), lock.ErrLost)
			assert.Equal(t, row.ttl-row.margin, time.Since(sent))
			_, err := l.TryAcquire(t.Context(), "a")
			require.ErrorIs(t, err, lock.ErrHeld, "the store let the next holder in before the last one knew")
		})
	}
}

func TestL05_DeadlineHoldsWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unblock := make(chan struct{})
		defer close(unblock)
		deaf := &locktest.Scripted{Driver: memlock.New()}
		deaf.OnRenew = func(_ context.Context, rs []driver.Renewal, _ locktest.RenewFunc) []error {
			<-unblock // and not ctx, like a client that waits for its own timeout
			return make([]error, len(rs))
		}
		l := newLocker(t, deaf, lock.WithTTL(3*time.Second))
		start := time.Now()
		lease := acquire(t, l, "a")
		cause := endOf(lease)
		require.ErrorIs(t, cause, lock.ErrLost)
		require.ErrorIs(t, cause, context.Canceled)
		assert.Equal(t, 2970*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, lease.Err(), lock.ErrLost)
		assert.NotErrorIs(t, lease.Err(), context.Canceled)
	})
}

func TestC13_LeaseIsTimedFromItsOwnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		l := newLocker(t, store, lock.WithTTL(time.Second), lock.WithoutRenewal())
		first := acquire(t, l, "a", lock.WithTTL(1200*time.Millisecond))
		second := acquire(t, l, "a") // waits 1.2 s
		require.Error(t, first.Err())
		assert.Greater(t, time.Until(second.Deadline()), 900*time.Millisecond)
	})
}

func TestC13_GrantThatArrivesAfterItsEndIsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		var late atomic.Bool
		late.Store(true)
		slow := &locktest.Scripted{Driver: store}
		slow.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			if late.Swap(false) {
				time.Sleep(r.TTL)
			}
			return g, err
		}
		l := newLocker(t, slow, lock.WithTTL(time.Second))
		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		acquire(t, l, "a")
	})
}

func TestL07_OneFailedRenewalEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		flaky := &locktest.Scripted{Driver: memlock.New()}
		flaky.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if calls.Add(1)%4 != 0 {
				errs := make([]error, len(rs))
				for i := range errs {
					errs[i] = errBroken
				}
				return errs
			}
			return next(ctx, rs)
		}
		l := newLocker(t, flaky, lock.WithTTL(time.Second))
		lease := acquire(t, l, "a")
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestL08_LateRenewalDoesNotReviveALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &locktest.Scripted{Driver: memlock.New()}
		slow.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			errs := next(ctx, rs)
			time.Sleep(2 * time.Second) // prolonged in the store, told too late
			return errs
		}
		l := newLocker(t, slow, lock.WithTTL(time.Second), lock.WithoutRenewal())
		lease := acquire(t, l, "a")
		err := lease.Renew(t.Context(), 30*time.Second)
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, lease.Err(), lock.ErrLost)
		require.ErrorIs(t, lease.Renew(t.Context(), time.Second), lock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrLost)
		synctest.Wait()
		acquire(t, l, "a", lock.WithoutWaiting()) // and what it prolonged in the store was ended
	})
}

func TestL20_AmbiguousShorteningTakesTheSmallerTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := &locktest.Scripted{Driver: memlock.New()}
		mute.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			next(ctx, rs)
			return []error{errBroken} // the answer is lost
		}
		l := newLocker(t, mute, lock.WithoutRenewal())
		start := time.Now()
		lease := acquire(t, l, "a")
		require.ErrorIs(t, lease.Renew(t.Context(), time.Second), lock.ErrUnavailable)
		assert.Equal(t, start.Add(990*time.Millisecond), lease.Deadline())
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrUnavailable)
		assert.Equal(t, start.Add(990*time.Millisecond), lease.Deadline(), "an unanswered prolongation counts for nothing")
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		assert.Equal(t, 990*time.Millisecond, time.Since(start))
	})
}

// TestL20_LateShorteningFindsNoBeliever has the request to shorten arrive long after its sender gave up.
func TestL20_LateShorteningFindsNoBeliever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		late := &locktest.Scripted{Driver: store}
		late.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			if rs[0].TTL == time.Second {
				time.Sleep(15 * time.Second)
				ctx = context.WithoutCancel(ctx)
			}
			return next(ctx, rs)
		}
		l := newLocker(t, late)
		lease := acquire(t, l, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, lease.Renew(ctx, time.Second), context.DeadlineExceeded)
		require.ErrorIs(t, lease.Renew(t.Context(), time.Minute), lock.ErrUnavailable, "it was prolonged although it may be cut off")
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		assert.LessOrEqual(t, time.Until(lease.Deadline()), time.Duration(0))
		acquire(t, newLocker(t, store), "a")
		require.Error(t, lease.Err())
		time.Sleep(15 * time.Second)
	})
}

func TestRenew_ThatProlongsAsksForNoShortening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shortened []bool
		watched := &locktest.Scripted{Driver: memlock.New()}
		watched.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			shortened = append(shortened, rs[0].Shorten)
			return next(ctx, rs)
		}
		lease := acquire(t, newLocker(t, watched, lock.WithoutRenewal()), "a")
		for _, ttl := range []time.Duration{30 * time.Second, time.Minute, time.Second, time.Second} {
			require.NoError(t, lease.Renew(t.Context(), ttl))
		}
		assert.Equal(t, []bool{false, false, true, false}, shortened)
	})
}

func TestRenew_WithoutAutomaticRenewalWaitsForTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &locktest.Scripted{Driver: memlock.New()}
		slow.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			time.Sleep(600 * time.Millisecond)
			return next(ctx, rs)
		}
		lease := acquire(t, newLocker(t, slow, lock.WithoutRenewal(), lock.WithTTL(time.Second)), "a")
		require.NoError(t, lease.Renew(t.Context(), time.Minute))
	})
}

func TestL05_SoonerLeaseIsWatchedBesideALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithoutRenewal())
		acquire(t, l, "late")
		start := time.Now()
		time.Sleep(10 * time.Millisecond) // the watch sleeps by now
		soon := acquire(t, l, "soon", lock.WithTTL(100*time.Millisecond))
		require.ErrorIs(t, endOf(soon), lock.ErrLost)
		assert.Equal(t, 105*time.Millisecond, time.Since(start))
	})
}

func TestL05_LogHandlerDelaysNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &locktest.Scripted{Driver: memlock.New()}
		broken.OnRenew = func(_ context.Context, rs []driver.Renewal, _ locktest.RenewFunc) []error {
			errs := make([]error, len(rs))
			for i := range errs {
				errs[i] = errBroken
			}
			return errs
		}
		var lease *lock.Lease
		var once sync.Once
		stuck := slog.New(handlerFunc(func() {
			_ = lease.Err() // takes the Locker's mutex
			once.Do(func() {
				time.Sleep(30 * time.Second)
				panic("a handler's")
			})
		}))
		l := newLocker(t, broken, lock.WithLogger(stuck), lock.WithTTL(time.Second))
		start := time.Now()
		lease = acquire(t, l, "a")
		other := acquire(t, l, "b", lock.WithTTL(1100*time.Millisecond))
		require.ErrorIs(t, endOf(lease), lock.ErrLost)
		require.ErrorIs(t, endOf(other), lock.ErrLost)
		assert.Equal(t, 1089*time.Millisecond, time.Since(start))

		start = time.Now()
		require.NoError(t, l.Close(t.Context()))
		assert.LessOrEqual(t, time.Since(start), time.Second, "nor does it keep Close")
		time.Sleep(time.Minute)
	})
}

// handlerFunc is a slog.Handler.
type handlerFunc func()

func (handlerFunc) Enabled(context.Context, slog.Level) bool { return true }
func (f handlerFunc) Handle(context.Context, slog.Record) error {
	f()
	return nil
}
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f handlerFunc) WithGroup(string) slog.Handler      { return f }

func TestL20_RenewalsOfALeaseAreSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		slow := &locktest.Scripted{Driver: memlock.New()}
		slow.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(300 * time.Millisecond)
			return next(ctx, rs)
		}
		l := newLocker(t, slow, lock.WithTTL(3*time.Second), lock.WithRenewEvery(400*time.Millisecond))
		lease := acquire(t, l, "a")
		for range 50 {
			require.NoError(t, lease.Renew(t.Context(), 3*time.Second))
			time.Sleep(70 * time.Millisecond)
		}
		assert.EqualValues(t, 1, most.Load())
		require.NoError(t, lease.Release(t.Context()))
		time.Sleep(time.Second) // a renewal under way ends by itself
	})
}

func TestRenew_SetsTheTTLOfLaterRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithTTL(time.Second))
		lease := acquire(t, l, "a")
		require.NoError(t, lease.Renew(t.Context(), time.Minute))
		time.Sleep(10 * time.Minute)
		require.NoError(t, lease.Err())
		assert.Greater(t, time.Until(lease.Deadline()), 30*time.Second)
		require.NoError(t, lease.Renew(t.Context(), 100*time.Millisecond))
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err())
		assert.Less(t, time.Until(lease.Deadline()), 100*time.Millisecond)
	})
}

func TestRenew_EndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		lease := acquire(t, l, "a")
		before := lease.Deadline()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, lease.Renew(ctx, time.Hour), context.Canceled)
		assert.Equal(t, before, lease.Deadline())
		require.NoError(t, lease.Release(ctx))
		require.ErrorIs(t, lease.Renew(t.Context(), time.Hour), lock.ErrReleased)
	})
}
