package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// calls is a store whose every call f comes before, with the call's name.
func calls(f func(ctx context.Context, name string) error) *locktest.ScriptedAll {
	d := locktest.ScriptAll(memlock.New())
	d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
		if err := f(ctx, "acquire"); err != nil {
			return driver.Grant{}, err
		}
		return next(ctx, r)
	}
	d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
		if err := f(ctx, "wait"); err != nil {
			return driver.Grant{}, err
		}
		return next(ctx, r, p)
	}
	d.OnLeave = func(ctx context.Context, resource string, holder, listener uuid.UUID, next locktest.LeaveFunc) error {
		if err := f(ctx, "leave"); err != nil {
			return err
		}
		return next(ctx, resource, holder, listener)
	}
	d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
		if err := f(ctx, "release"); err != nil {
			return err
		}
		return next(ctx, c, keep)
	}
	d.OnResume = func(ctx context.Context, c fence.Claim, r driver.Request, next locktest.ResumeFunc) (driver.Grant, error) {
		if err := f(ctx, "resume"); err != nil {
			return driver.Grant{}, err
		}
		return next(ctx, c, r)
	}
	d.OnBreak = func(ctx context.Context, r driver.Request, fingerprint string, next locktest.BreakFunc) (driver.Grant, error) {
		if err := f(ctx, "break"); err != nil {
			return driver.Grant{}, err
		}
		return next(ctx, r, fingerprint)
	}
	d.OnInspect = func(ctx context.Context, resource string, next locktest.InspectFunc) (driver.Info, error) {
		if err := f(ctx, "inspect"); err != nil {
			return driver.Info{}, err
		}
		return next(ctx, resource)
	}
	d.OnRaise = func(ctx context.Context, resource string, past fence.Token, next locktest.RaiseFunc) error {
		if err := f(ctx, "raise"); err != nil {
			return err
		}
		return next(ctx, resource, past)
	}
	return d
}

// everything is each method of a Locker that calls the store, on a resource of its own; claim is of "resume".
func everything(l *lock.Locker, claim fence.Claim) map[string]func(context.Context, ...lock.Option) error {
	return map[string]func(context.Context, ...lock.Option) error{
		"Acquire": func(ctx context.Context, opts ...lock.Option) error {
			_, err := l.Acquire(ctx, "a", opts...)
			return err
		},
		"TryAcquire": func(ctx context.Context, opts ...lock.Option) error {
			_, err := l.TryAcquire(ctx, "b", opts...)
			return err
		},
		"AcquireAll": func(ctx context.Context, opts ...lock.Option) error {
			_, err := l.AcquireAll(ctx, []string{"c", "d"}, opts...)
			return err
		},
		"Do": func(ctx context.Context, opts ...lock.Option) error {
			return l.Do(ctx, "e", func(context.Context, *lock.Lease) error { return nil }, opts...)
		},
		"Resume": func(ctx context.Context, opts ...lock.Option) error {
			_, err := l.Resume(ctx, claim, opts...)
			return err
		},
		"Break":   func(ctx context.Context, opts ...lock.Option) error { _, err := l.Break(ctx, "f", opts...); return err },
		"Inspect": func(ctx context.Context, _ ...lock.Option) error { _, err := l.Inspect(ctx, "g"); return err },
		"Raise":   func(ctx context.Context, _ ...lock.Option) error { return l.Raise(ctx, "h", 1) },
	}
}

// TestC05_NothingIsSentInVain has the context have ended, or the Locker.
func TestC05_NothingIsSentInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		l := newLocker(t, calls(func(context.Context, string) error { sent.Add(1); return nil }))
		lease := acquire(t, l, "resume")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		sent.Store(0)
		for name, call := range everything(l, lease.Claim()) {
			require.ErrorIs(t, call(ended), context.Canceled, name)
		}
		claim := lease.Detach()
		require.NoError(t, l.Close(t.Context()))
		for name, call := range everything(l, claim) {
			require.ErrorIs(t, call(t.Context()), lock.ErrClosed, name)
		}
		require.ErrorIs(t, lease.Release(t.Context()), lock.ErrReleased)
		synctest.Wait()
		assert.Zero(t, sent.Load())
	})
}

// TestC06_SilentStore is silent to everything, and obeys the deadlines that it is given or not even those.
func TestC06_SilentStore(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			silent := &atomic.Bool{}
			scripted := calls(func(ctx context.Context, _ string) error {
				switch _, timed := ctx.Deadline(); {
				case !silent.Load():
				case obeys && timed:
					<-ctx.Done()
				default:
					time.Sleep(time.Hour)
				}
				return ctx.Err()
			})
			var d driver.Driver = scripted
			if obeys {
				d = obedientAll{scripted}
			}
			l := newLocker(t, d, lock.WithRetryFor(2*time.Second))
			for want, within := range map[error]time.Duration{lock.ErrUnavailable: time.Hour, context.DeadlineExceeded: time.Second} {
				claim := acquire(t, l, "resume", lock.WithTTL(time.Minute)).Detach()
				silent.Store(true)
				for name, call := range everything(l, claim) {
					start := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), within)
					err := call(ctx)
					cancel()
					require.True(t, isError(err, want), "%s: %v", name, err)
					assert.Equal(t, want == lock.ErrUnavailable, isError(err, lock.ErrUnavailable), name)
					assert.Equal(t, min(within, 2*time.Second), time.Since(start), name)
				}
				silent.Store(false)
				time.Sleep(2 * time.Minute)
			}
			silent.Store(true)
			start := time.Now()
			_, err := l.Break(context.Background(), "r", lock.WithRetryFor(0))
			require.ErrorIs(t, err, lock.ErrUnavailable)
			assert.Equal(t, time.Second, time.Since(start), "at least")
			silent.Store(false)
			time.Sleep(time.Hour) // the deaf calls end by themselves
		})
	}
}

// obedientAll is obedient with every ability.
type obedientAll struct{ *locktest.ScriptedAll }

func (obedientAll) Features() driver.Features { return driver.Features{ObeysDeadline: true} }

// TestClose_EndsWhatATakeoverInFlightMayHaveWon has it be done in the store, and the answer not come.
func TestClose_EndsWhatATakeoverInFlightMayHaveWon(t *testing.T) {
	for _, name := range []string{"Resume", "Break"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New()
				d := locktest.ScriptAll(store)
				d.OnResume = func(ctx context.Context, c fence.Claim, r driver.Request, next locktest.ResumeFunc) (driver.Grant, error) {
					g, err := next(ctx, c, r)
					time.Sleep(time.Second)
					return g, err
				}
				d.OnBreak = func(ctx context.Context, r driver.Request, fingerprint string, next locktest.BreakFunc) (driver.Grant, error) {
					g, err := next(ctx, r, fingerprint)
					time.Sleep(time.Second)
					return g, err
				}
				l := newLocker(t, d)
				claim := acquire(t, l, "f").Detach()
				failed := make(chan error, 1)
				go func() { failed <- everything(l, claim)[name](t.Context()) }()
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				require.NoError(t, l.Close(t.Context()))
				require.ErrorIs(t, <-failed, lock.ErrClosed)
				acquire(t, newLocker(t, store), "f", lock.WithoutWaiting())
				assert.Zero(t, time.Since(start))
				time.Sleep(time.Second) // the deaf call ends by itself
			})
		})
	}
}

// TestL04_CopyOfASlowTakeover has a client that may have repeated it: a tombstone is left for the copy. A quick one needs
// none.
func TestL04_CopyOfASlowTakeover(t *testing.T) {
	for took, want := range map[time.Duration]int32{200 * time.Millisecond: 1, 300 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			var releases atomic.Int32
			l := newLocker(t, calls(func(_ context.Context, name string) error {
				switch name {
				case "resume", "break":
					time.Sleep(took)
				case "release", "leave":
					releases.Add(1)
				}
				return nil
			}))
			lease, err := l.Resume(t.Context(), acquire(t, l, "a").Detach())
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
			synctest.Wait()
			assert.Equal(t, want, releases.Swap(0), "Resume")
		})
	}
}

// TestL22_DefaultsDoNotCount for a lease that was resumed, but for the TTL to renew it by; the label is this call's.
func TestL22_DefaultsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			assert.Equal(t, 20*time.Second, rs[0].TTL)
			return next(ctx, rs)
		}
		l := newLocker(t, d, lock.WithTTL(20*time.Second), lock.WithMinHold(15*time.Second))
		claim := acquire(t, l, "a", lock.WithMinHold(0)).Detach()
		lease, err := l.Resume(t.Context(), claim, lock.WithRenewEvery(time.Second), lock.WithLabel("the new one"))
		require.NoError(t, err)
		info, err := l.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "the new one", info.Label)
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting(), lock.WithMinHold(0)).Release(t.Context()))

		_, err = l.Resume(t.Context(), claim)
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorContains(t, err, `"a"`)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
	})
}

// TestL14_CoarseStoreDoesNotProlongAResumedLease rounds the TTL up that was asked for.
func TestL14_CoarseStoreDoesNotProlongAResumedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnResume = func(ctx context.Context, c fence.Claim, r driver.Request, next locktest.ResumeFunc) (driver.Grant, error) {
			r.TTL = 2 * time.Second
			return next(ctx, c, r)
		}
		l := newLocker(t, d)
		start := time.Now()
		lease, err := l.Resume(t.Context(), acquire(t, l, "a").Detach(), lock.WithTTL(1200*time.Millisecond))
		require.NoError(t, err)
		assert.Equal(t, start.Add(1188*time.Millisecond), lease.Deadline())
	})
}

// TestL23_BreakHoldsWhatItTookWhileItSeals although the Locker's leases don't renew themselves.
func TestL23_BreakHoldsWhatItTookWhileItSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New(), lock.WithTTL(time.Second), lock.WithoutRenewal())
		slow := sealFunc(func(ctx context.Context, c fence.Claim) error {
			time.Sleep(5 * time.Second)
			info, err := l.Inspect(ctx, "a")
			assert.NoError(t, err)
			assert.Equal(t, lock.Info{Held: true, Token: c.Token, Holder: fence.Fingerprint(c.Holder), Label: "an operator", Remaining: info.Remaining}, info)
			return nil
		})
		_, err := l.Break(t.Context(), "a", lock.WithSeal(slow), lock.WithLabel("an operator"))
		require.NoError(t, err)
	})
}

// TestL23_BreakThatFails has the seal or the release do so, or another holder be in.
func TestL23_BreakThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		l := newLocker(t, calls(func(_ context.Context, name string) error {
			if (name == "release" || name == "leave") && broken.Load() {
				return errBroken
			}
			return nil
		}))
		claim, err := l.Break(t.Context(), "a", lock.WithSeal(sealFunc(func(context.Context, fence.Claim) error { return fence.ErrUnavailable })))
		require.ErrorIs(t, err, fence.ErrUnavailable)
		assert.Zero(t, claim)
		held := acquire(t, l, "a", lock.WithoutWaiting())

		_, err = l.Break(t.Context(), "a", lock.IfHeldBy("00000000"))
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorContains(t, err, `"a"`)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
		require.NoError(t, held.Renew(t.Context(), time.Minute))

		broken.Store(true)
		claim, err = l.Break(t.Context(), "a")
		var failed *lock.ReleaseError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "a", failed.Resource)
		require.ErrorIs(t, err, errBroken)
		assert.Greater(t, claim.Token, held.Token())
		require.ErrorIs(t, held.Renew(t.Context(), time.Minute), lock.ErrLost)
	})
}
