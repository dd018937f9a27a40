package lock_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestL04_AbandonedAcquireIsEnded has the caller's ctx end while the request, or its reply, is on its
// way.
func TestL04_AbandonedAcquireIsEnded(t *testing.T) {
	for _, late := range []string{"reply", "request"} {
		t.Run(late, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New()
				slow := &locktest.Scripted{Driver: store}
				slow.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
					if late == "request" {
						time.Sleep(500 * time.Millisecond)
						return next(context.WithoutCancel(ctx), r) // on the wire, where no ctx reaches
					}
					g, err := next(ctx, r)
					time.Sleep(500 * time.Millisecond)
					return g, err
				}
				l := newLocker(t, slow)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, err := l.Acquire(ctx, "a")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, lock.ErrUnavailable)
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				time.Sleep(time.Second) // the request has landed
				acquire(t, newLocker(t, store), "a", lock.WithoutWaiting())
			})
		})
	}
}

func TestL04_UnansweredTryIsEndedBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		var tries atomic.Int32
		mute := &locktest.Scripted{Driver: store}
		mute.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			if tries.Add(1) <= 3 {
				return driver.Grant{}, errBroken // granted, and the answer lost
			}
			return g, err
		}
		l := newLocker(t, mute)
		start := time.Now()
		lease := acquire(t, l, "a")
		assert.EqualValues(t, 4, tries.Load(), "an orphan was in the way")
		assert.Less(t, time.Since(start), time.Second)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// TestL04_ManyAbandonedAcquires has more than can be cleaned up at once.
func TestL04_ManyAbandonedAcquires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		slow := &locktest.Scripted{Driver: store}
		slow.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			time.Sleep(time.Second)
			return g, err
		}
		slow.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			time.Sleep(100 * time.Millisecond)
			return next(ctx, c, keep)
		}
		l := newLocker(t, slow)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				_, err := l.Acquire(ctx, strconv.Itoa(i))
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		wg.Wait()
		time.Sleep(3 * time.Second)
		direct := newLocker(t, store)
		for i := range 1000 {
			acquire(t, direct, strconv.Itoa(i), lock.WithoutWaiting())
		}
	})
}

// TestL04_CopyOfASlowAcquire has a client repeat a request whose answer was late: its first copy arrives
// when the lease has been released.
func TestL04_CopyOfASlowAcquire(t *testing.T) {
	for _, first := range []string{"granted", "granted and not sealed", "held"} {
		t.Run(first, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New()
				var copied atomic.Bool
				repeating := &locktest.Scripted{Driver: store}
				repeating.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
					if !copied.Swap(true) {
						time.AfterFunc(10*time.Second, func() { //nolint:contextcheck // it arrives after its sender has gone
							_, err := next(context.Background(), r)
							assert.Error(t, err, "a late copy took the resource")
						})
						time.Sleep(3 * time.Second) // the client's timeout
					}
					return next(ctx, r)
				}
				direct := newLocker(t, store)
				l := newLocker(t, repeating)
				switch first {
				case "held":
					holder := acquire(t, direct, "a")
					_, err := l.TryAcquire(t.Context(), "a")
					require.ErrorIs(t, err, lock.ErrHeld)
					require.NoError(t, holder.Release(t.Context()))
				case "granted":
					require.NoError(t, acquire(t, l, "a").Release(t.Context()))
				default:
					refusing := sealFunc(func(context.Context, fence.Claim) error { return fence.ErrStale })
					_, err := l.Acquire(t.Context(), "a", lock.WithSeal(refusing))
					require.ErrorIs(t, err, fence.ErrStale)
				}
				time.Sleep(8 * time.Second)
				acquire(t, direct, "a", lock.WithoutWaiting())
			})
		})
	}
}

func TestRetryFor_BoundsASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unblock := make(chan struct{})
		defer close(unblock)
		deaf := &locktest.Scripted{Driver: memlock.New()}
		deaf.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
			<-unblock
			return driver.Grant{}, errBroken
		}
		l := newLocker(t, deaf)
		for want, option := range map[time.Duration]lock.Option{5 * time.Second: lock.WithRetryFor(5 * time.Second), time.Second: lock.WithRetryFor(0)} {
			for _, acquire := range []func(context.Context, string, ...lock.Option) (*lock.Lease, error){l.Acquire, l.TryAcquire} {
				start := time.Now()
				_, err := acquire(context.Background(), "a", option)
				require.ErrorIs(t, err, lock.ErrUnavailable)
				assert.Equal(t, want, time.Since(start))
			}
		}
	})
}

func TestDriverThatPanicsOrEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &locktest.Scripted{Driver: memlock.New()}
		bad.OnAcquire = func(_ context.Context, r driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
			if r.Resource == "panic" {
				panic("the driver's")
			}
			runtime.Goexit()
			return driver.Grant{}, nil
		}
		l := newLocker(t, bad)
		assert.PanicsWithValue(t, "the driver's", func() { _, _ = l.TryAcquire(t.Context(), "panic") })
		_, err := l.TryAcquire(t.Context(), "exit")
		require.ErrorIs(t, err, lock.ErrUnavailable)
	})
}

func TestC05_EndedContextSendsNothing(t *testing.T) {
	silent := &locktest.Scripted{Driver: memlock.New()}
	silent.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
		t.Error("sent an acquire")
		return driver.Grant{}, errBroken
	}
	silent.OnRelease = func(context.Context, fence.Claim, time.Duration, locktest.ReleaseFunc) error {
		t.Error("sent a release")
		return errBroken
	}
	l := newLocker(t, silent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, acquire := range []func(context.Context, string, ...lock.Option) (*lock.Lease, error){l.Acquire, l.TryAcquire} {
		lease, err := acquire(ctx, "a")
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, lease)
	}
}

func TestL15_C07_OutcomesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		l := newLocker(t, store)
		acquire(t, l, "a")
		broken := &locktest.Scripted{Driver: store}
		broken.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
			// A client's own timeout is not the caller's.
			return driver.Grant{}, context.DeadlineExceeded
		}
		down := newLocker(t, broken)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, held := l.TryAcquire(t.Context(), "a")
		_, unavailable := down.TryAcquire(t.Context(), "a")
		_, ended := l.Acquire(short, "a")
		all := []error{lock.ErrHeld, lock.ErrUnavailable, context.DeadlineExceeded, lock.ErrLost, lock.ErrReleased, lock.ErrClosed}
		for want, err := range map[error]error{lock.ErrHeld: held, lock.ErrUnavailable: unavailable, context.DeadlineExceeded: ended} {
			for _, sentinel := range all {
				assert.Equal(t, sentinel == want, isError(err, sentinel), "%v is %v", err, sentinel)
			}
		}
		require.ErrorIs(t, unavailable, fence.ErrUnavailable)
		var heldErr *lock.HeldError
		require.ErrorAs(t, held, &heldErr)
		assert.Equal(t, "a", heldErr.Resource)
		assert.Equal(t, 30*time.Second, heldErr.RetryAfter)
	})
}

func TestRetryFor(t *testing.T) {
	for _, patience := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			broken := &locktest.Scripted{Driver: memlock.New()}
			broken.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
				return driver.Grant{}, errBroken
			}
			l := newLocker(t, broken, lock.WithRetryFor(patience))
			start := time.Now()
			_, err := l.Acquire(t.Context(), "a")
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.ErrorIs(t, err, errBroken)
			assert.LessOrEqual(t, time.Since(start), patience)
			assert.GreaterOrEqual(t, time.Since(start), patience-time.Second)
		})
	}
}

func TestRetryFor_CountsFromTheLastContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		var broken atomic.Bool
		flaky := &locktest.Scripted{Driver: store}
		flaky.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			if broken.Load() {
				return driver.Grant{}, errBroken
			}
			return next(ctx, r)
		}
		holder := acquire(t, newLocker(t, store), "a")
		l := newLocker(t, flaky, lock.WithRetryFor(4*time.Second))
		got := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "a")
			got <- err
		}()
		for range 10 { // ten outages of a second, with contact between
			time.Sleep(time.Second)
			broken.Store(!broken.Load())
		}
		require.NoError(t, holder.Release(t.Context()))
		broken.Store(false)
		require.NoError(t, <-got)
	})
}

func TestL14_BadInputSendsNothing(t *testing.T) {
	silent := &locktest.Scripted{Driver: memlock.New()}
	silent.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
		t.Error("sent an acquire")
		return driver.Grant{}, errBroken
	}
	l := newLocker(t, silent)
	for _, row := range []struct {
		option lock.Option
		names  string
	}{
		{nil, "option is nil"},
		{lock.WithTTL(0), "WithTTL(0s)"},
		{lock.WithTTL(-time.Second), "WithTTL(-1s)"},
		{lock.WithTTL(500 * time.Microsecond), "WithTTL(500µs)"},
		{lock.WithTTL(19 * time.Millisecond), "WithTTL(19ms)"},
		{lock.WithTTL(time.Duration(math.MaxInt64).Truncate(time.Millisecond)), "WithTTL(2562047h47m16.854s)"},
		{lock.WithTTL(time.Second + time.Microsecond), "WithTTL(1.000001s)"},
		{lock.WithRenewEvery(0), "WithRenewEvery(0s)"},
		{lock.WithRenewEvery(-time.Second), "WithRenewEvery(-1s)"},
		{lock.WithRenewEvery(time.Millisecond), "WithRenewEvery(1ms)"},
		{lock.WithRenewEvery(30 * time.Second), "WithRenewEvery(30s)"},
		{lock.WithRenewEvery(29700 * time.Millisecond), "WithRenewEvery(29.7s)"},
		{lock.WithMinHold(-1), "WithMinHold(-1ns)"},
		{lock.WithMinHold(31 * time.Second), "WithMinHold(31s)"},
		{lock.WithRetryFor(-1), "WithRetryFor(-1ns)"},
		{lock.WithLabel("a\nb"), `WithLabel("a\nb")`},
		{lock.WithLabel("\xff"), `WithLabel("\xff")`},
		{lock.WithLabel(strings.Repeat("x", 129)), "WithLabel("},
	} {
		_, err := lock.New(memlock.New(), row.option)
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.ErrorContains(t, err, row.names)
		_, err = l.Acquire(t.Context(), "a", row.option)
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.ErrorContains(t, err, row.names)
		err = l.Do(t.Context(), "a", func(context.Context, *lock.Lease) error { t.Error("ran"); return nil }, row.option)
		require.ErrorIs(t, err, fence.ErrInvalid)
	}
	for _, resource := range []string{"", strings.Repeat("r", 513), "a\x00", "\xff", "a\u0085"} {
		_, err := l.Acquire(t.Context(), resource)
		require.ErrorIs(t, err, fence.ErrInvalid)
		_, err = l.TryAcquire(t.Context(), resource)
		require.ErrorIs(t, err, fence.ErrInvalid)
	}
	_, err := lock.New(nil)
	require.ErrorIs(t, err, fence.ErrInvalid)
}

func TestL14_RenewWithABadTTLChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithoutRenewal())
		lease := acquire(t, l, "a")
		before := lease.Deadline()
		for _, ttl := range []time.Duration{0, -time.Second, 19 * time.Millisecond, 20500 * time.Microsecond, math.MaxInt64 / 1e6 * 1e6} {
			err := lease.Renew(t.Context(), ttl)
			require.ErrorIs(t, err, fence.ErrInvalid)
			assert.ErrorContains(t, err, ttl.String())
		}
		assert.Equal(t, before, lease.Deadline())
	})
}

func TestL14_CoarseStoreDoesNotProlongTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coarse := &locktest.Scripted{Driver: memlock.New()}
		coarse.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			r.TTL = 2 * time.Second
			return next(ctx, r)
		}
		start := time.Now()
		lease := acquire(t, newLocker(t, coarse, lock.WithTTL(1200*time.Millisecond)), "a")
		assert.Equal(t, start.Add(1188*time.Millisecond), lease.Deadline())
	})
}

func TestL17_ClaimIsImmutable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithTTL(time.Second), lock.WithoutRenewal())
		old := acquire(t, l, "a")
		claim := old.Claim()
		next := acquire(t, l, "a")
		assert.Equal(t, claim, old.Claim())
		assert.Equal(t, claim.Token, old.Token())
		assert.Less(t, old.Token(), next.Token())
		assert.NotEqual(t, claim.Holder, next.Claim().Holder)
		carried, ok := fence.FromContext(old.Context())
		require.True(t, ok)
		assert.Equal(t, claim, carried)
	})
}

func isError(err, sentinel error) bool {
	for _, e := range flatten(err) {
		if e == sentinel {
			return true
		}
	}
	return false
}

// flatten returns err and all that it wraps.
func flatten(err error) []error {
	all := []error{err}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, flatten(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, flatten(inner)...)
		}
	}
	return all
}

func TestDriverThatPanicsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			_, _ = next(ctx, r, p)
			panic("a driver's")
		}
		l := newLocker(t, d)
		assert.PanicsWithValue(t, "a driver's", func() { _, _ = l.Acquire(t.Context(), "a") })
		synctest.Wait()
		info, err := l.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.False(t, info.Held)
	})
}
