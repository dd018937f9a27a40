package lock_test

import (
	"context"
	"runtime"
	"sync"
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

// scripts has a test for a store without a queue and for one with it. The nth try, from 1, is answered by f; nil: by the store.
func scripts(t *testing.T, f func(n int32) error, test func(t *testing.T, d driver.Driver, tries *atomic.Int32)) {
	t.Helper()
	for _, name := range []string{"no queue", "a queue"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				d := locktest.ScriptAll(memlock.New())
				d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
					if err := f(tries.Add(1)); err != nil {
						return driver.Grant{}, err
					}
					return next(ctx, r)
				}
				d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
					err := f(tries.Add(1))
					if held, ok := err.(*driver.Held); ok {
						err = &driver.Queued{Ticket: 1, RetryAfter: held.RetryAfter}
					}
					if err != nil {
						return driver.Grant{}, err
					}
					return next(ctx, r, p)
				}
				if name == "a queue" {
					test(t, d, &tries)
				} else {
					test(t, &d.Scripted, &tries)
				}
			})
		})
	}
}

func TestRetryFor_BacksOff(t *testing.T) {
	scripts(t, func(int32) error { return errBroken }, func(t *testing.T, d driver.Driver, tries *atomic.Int32) {
		_, err := newLocker(t, d).Acquire(t.Context(), "r")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		assert.Less(t, tries.Load(), int32(25))
		assert.Greater(t, tries.Load(), int32(8))
	})
}

// TestRetryFor_ContactEndsTheBackoff has an outage, an answer, and one more lost one.
func TestRetryFor_ContactEndsTheBackoff(t *testing.T) {
	var last time.Time
	scripts(t, func(n int32) error {
		switch {
		case n == 8:
			return &driver.Held{RetryAfter: time.Millisecond}
		case n < 10:
			last = time.Now()
			return errBroken
		}
		return nil
	}, func(t *testing.T, d driver.Driver, _ *atomic.Int32) {
		acquire(t, newLocker(t, d, lock.WithRetryFor(time.Minute)), "r")
		assert.LessOrEqual(t, time.Since(last), 20*time.Millisecond)
	})
}

// TestRetryFor_CountsContactWithAQueueToo has the store answer for long, and then fail.
func TestRetryFor_CountsContactWithAQueueToo(t *testing.T) {
	start := time.Time{}
	scripts(t, func(int32) error {
		if time.Since(start) < 10*time.Second {
			return &driver.Held{}
		}
		return errBroken
	}, func(t *testing.T, d driver.Driver, _ *atomic.Int32) {
		start = time.Now()
		_, err := newLocker(t, d, lock.WithRetryFor(4*time.Second)).Acquire(t.Context(), "r")
		require.ErrorIs(t, err, errBroken)
		assert.InDelta(t, 13, time.Since(start).Seconds(), 1)
	})
}

// TestRetryFor_BoundsASilenceThatFollowsFailures has 3 of 5 s pass before.
func TestRetryFor_BoundsASilenceThatFollowsFailures(t *testing.T) {
	start := time.Time{}
	scripts(t, func(int32) error {
		if time.Since(start) > 3*time.Second {
			time.Sleep(time.Minute)
		}
		return errBroken
	}, func(t *testing.T, d driver.Driver, _ *atomic.Int32) {
		start = time.Now()
		_, err := newLocker(t, d).Acquire(t.Context(), "r")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		assert.Equal(t, 5*time.Second, time.Since(start))
		time.Sleep(time.Minute) // the call ends by itself
	})
}

// TestPolling is for a store without a queue: soon at first, then about five times a second, and at an expiry that is known.
func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, releases atomic.Int32
		known := true
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			tries.Add(1)
			g, err := next(ctx, r)
			if _, held := err.(*driver.Held); held && !known {
				err = &driver.Held{}
			}
			return g, err
		}
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			releases.Add(1)
			return next(ctx, c, keep)
		}
		l := newLocker(t, d, lock.WithTTL(10*time.Second), lock.WithoutRenewal())
		start := time.Now()
		acquire(t, l, "r")
		second := acquire(t, l, "r")
		assert.Equal(t, 10*time.Second+5*time.Millisecond, time.Since(start), "it asks when the lease is over")
		assert.InDelta(t, 55, tries.Load(), 15)

		known = false
		tries.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "r")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held", "it says why it waited")
		assert.EqualValues(t, 2, tries.Load())
		third := acquire(t, l, "r")
		assert.Less(t, time.Since(start), 20*time.Second+250*time.Millisecond)
		assert.InDelta(t, 55, tries.Load(), 15)

		assert.Zero(t, releases.Load(), "what was answered soon leaves nothing to end")
		require.Error(t, second.Err())
		require.NoError(t, third.Release(t.Context()))
		synctest.Wait()
		assert.EqualValues(t, 1, releases.Load())
	})
}

// TestL04_OnlyTheSlowTryIsGivenUp has one try take long, and the later ones not.
func TestL04_OnlyTheSlowTryIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, releases atomic.Int32
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			if tries.Add(1) == 2 {
				time.Sleep(300 * time.Millisecond)
			}
			return next(ctx, r)
		}
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			releases.Add(1)
			return next(ctx, c, keep)
		}
		l := newLocker(t, d, lock.WithTTL(5*time.Second), lock.WithoutRenewal())
		acquire(t, l, "r")
		lease := acquire(t, l, "r")
		assert.EqualValues(t, 1, releases.Load())
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		assert.EqualValues(t, 2, releases.Load())
	})
}

// TestL04_NoOtherTryWhileOneIsInDoubt has an answer be lost, and the giving up fail for a time.
func TestL04_NoOtherTryWhileOneIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var releases atomic.Int32
		holders := map[uuid.UUID]bool{}
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			holders[r.Holder] = true
			if len(holders) == 1 {
				return driver.Grant{}, errBroken
			}
			assert.EqualValues(t, 4, releases.Load())
			return g, err
		}
		d.OnRelease = func(ctx context.Context, c fence.Claim, keep time.Duration, next locktest.ReleaseFunc) error {
			if releases.Add(1) < 4 {
				return errBroken
			}
			return next(ctx, c, keep)
		}
		acquire(t, newLocker(t, d), "r")
		assert.Len(t, holders, 2)
	})
}

// TestL04_GrantThatWasTooLateIsGivenUp before there is a try under another holder.
func TestL04_GrantThatWasTooLateIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late uuid.UUID
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			g, err := next(ctx, r)
			if late == uuid.Nil {
				late = r.Holder
				time.Sleep(r.TTL)
				return g, err
			}
			assert.NotEqual(t, late, r.Holder)
			_, again := next(ctx, driver.Request{Resource: "r", Holder: late, TTL: time.Second})
			assert.ErrorContains(t, again, "abandoned")
			return g, err
		}
		lease := acquire(t, newLocker(t, d, lock.WithTTL(time.Second)), "r")
		require.NoError(t, lease.Err())
	})
}

// TestL04_WhoGivesUpNamesItsListener has Leave be told what Wait was.
func TestL04_WhoGivesUpNamesItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited, left := make(chan uuid.UUID, 1), make(chan uuid.UUID, 1)
		d := locktest.ScriptAll(memlock.New())
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			if r.Label == "gives up" {
				waited <- p.Listener
			}
			return next(ctx, r, p)
		}
		d.OnLeave = func(ctx context.Context, resource string, holder, listener uuid.UUID, next locktest.LeaveFunc) error {
			left <- listener
			return next(ctx, resource, holder, listener)
		}
		l := newLocker(t, d)
		acquire(t, l, "r")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond)
		defer cancel()
		_, err := l.Acquire(ctx, "r", lock.WithLabel("gives up"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, <-waited, <-left)
	})
}

// TestAcquire_EndsAtOnce has the context, or the Locker, end in the middle of each kind of waiting.
func TestAcquire_EndsAtOnce(t *testing.T) {
	for _, waits := range []string{"in line", "between polls", "between retries", "for an answer"} {
		for _, end := range []string{"context", "Locker"} {
			t.Run(waits+", the "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					scripted := locktest.ScriptAll(memlock.New())
					scripted.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
						switch {
						case r.Label == "waits" && waits == "between retries":
							return driver.Grant{}, errBroken
						case r.Label == "waits" && waits == "for an answer":
							time.Sleep(time.Minute)
						}
						return next(ctx, r)
					}
					var d driver.Driver = scripted
					if waits != "in line" {
						d = &scripted.Scripted
					}
					l := newLocker(t, d, lock.WithRetryFor(time.Hour))
					acquire(t, newLocker(t, scripted.Driver), "r")
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					failed := make(chan error, 1)
					go func() {
						_, err := l.Acquire(ctx, "r", lock.WithLabel("waits"))
						failed <- err
					}()
					time.Sleep(10*time.Second + 333*time.Microsecond)
					start, want := time.Now(), context.Canceled
					if end == "context" {
						cancel()
					} else {
						want = lock.ErrClosed
						require.NoError(t, l.Close(t.Context()))
					}
					require.ErrorIs(t, <-failed, want)
					assert.Zero(t, time.Since(start))
					time.Sleep(time.Minute) // the deaf call ends by itself
				})
			})
		}
	}
}

// TestC06_ContextThatEndsInACall has a store return the context's error, as one does that obeys deadlines. It is the
// caller's, although there is no time left for retries either.
func TestC06_ContextThatEndsInACall(t *testing.T) {
	for _, call := range []string{"the try", "the giving up"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &locktest.Scripted{Driver: memlock.New()}
				store.OnAcquire = func(ctx context.Context, _ driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
					if call == "the try" {
						<-ctx.Done()
					}
					return driver.Grant{}, errBroken
				}
				store.OnRelease = func(ctx context.Context, _ fence.Claim, _ time.Duration, _ locktest.ReleaseFunc) error {
					<-ctx.Done()
					return ctx.Err()
				}
				l := newLocker(t, obedient{store}, lock.WithRetryFor(500*time.Millisecond))
				for name, acquire := range map[string]func(context.Context, string, ...lock.Option) (*lock.Lease, error){"Acquire": l.Acquire, "TryAcquire": l.TryAcquire} {
					if name == "TryAcquire" && call == "the giving up" {
						continue // it has one try
					}
					ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
					_, err := acquire(ctx, "r")
					require.ErrorIs(t, err, context.DeadlineExceeded, name)
					require.NotErrorIs(t, err, lock.ErrUnavailable, name)
					cancel()
				}
			})
		})
	}
}

// TestC06_LateCallsEnd has them be told that nobody waits for them any more, and a long deadline not be their bound.
func TestC06_LateCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		store := &locktest.Scripted{Driver: memlock.New()}
		store.OnAcquire = func(ctx context.Context, _ driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
			<-ctx.Done()
			told.Add(1)
			return driver.Grant{}, ctx.Err()
		}
		cancelled, cancel := context.WithCancel(t.Context())
		defer cancel()
		timed, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for i, ctx := range []context.Context{cancelled, timed} {
			for j, d := range []driver.Driver{store, obedient{store}} {
				start := time.Now()
				_, err := newLocker(t, d).TryAcquire(ctx, "r", lock.WithRetryFor(2*time.Second))
				require.ErrorIs(t, err, lock.ErrUnavailable)
				assert.Equal(t, 2*time.Second, time.Since(start))
				synctest.Wait()
				assert.EqualValues(t, 3*i+2*j+1, told.Load(), "a short call first, if it obeys")
			}
		}
	})
}

// TestDriverThatAnswersNonsense grants what is no token, or queues who doesn't stand in line.
func TestDriverThatAnswersNonsense(t *testing.T) {
	for _, row := range []struct {
		grant driver.Grant
		err   error
	}{
		{driver.Grant{TTL: time.Minute}, nil},
		{driver.Grant{Token: -1, TTL: time.Minute}, nil},
		{driver.Grant{}, &driver.Queued{Ticket: 1}},
	} {
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(context.Context, driver.Request, locktest.AcquireFunc) (driver.Grant, error) {
			return row.grant, row.err
		}
		l := newLocker(t, d, lock.WithRetryFor(0))
		for _, acquire := range []func(context.Context, string, ...lock.Option) (*lock.Lease, error){l.Acquire, l.TryAcquire} {
			_, err := acquire(t.Context(), "r")
			require.ErrorIs(t, err, lock.ErrUnavailable)
		}
	}
	d := &locktest.Scripted{Driver: memlock.New()}
	d.OnRelease = func(context.Context, fence.Claim, time.Duration, locktest.ReleaseFunc) error {
		runtime.Goexit()
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		require.ErrorIs(t, acquire(t, newLocker(t, d), "r").Release(t.Context()), lock.ErrUnavailable)
	})
}

// TestL03_ReplayedGrantHasLessLeft has the store say so; the renewals ask for the whole again.
func TestL03_ReplayedGrantHasLessLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked sync.Map
		d := &locktest.Scripted{Driver: memlock.New()}
		d.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			_, _ = next(ctx, driver.Request{Resource: r.Resource, Holder: r.Holder, TTL: 20 * time.Second})
			return next(ctx, r) // the client repeats it
		}
		d.OnRenew = func(ctx context.Context, rs []driver.Renewal, next locktest.RenewFunc) []error {
			asked.Store(rs[0].TTL, true)
			return next(ctx, rs)
		}
		start := time.Now()
		lease := acquire(t, newLocker(t, d), "r")
		assert.Equal(t, start.Add(19800*time.Millisecond), lease.Deadline())
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		asked.Range(func(ttl, _ any) bool { return assert.Equal(t, 30*time.Second, ttl) })
	})
}
