package lock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
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

// obedient says that its calls end with the deadline of their context.
type obedient struct{ *locktest.Scripted }

func (obedient) Features() driver.Features { return driver.Features{ObeysDeadline: true} }

// TestC06_SilentDriver has one that obeys deadlines and one that obeys nothing, with a context that ends by either.
func TestC06_SilentDriver(t *testing.T) {
	for name, obeys := range map[string]bool{"obeys deadlines": true, "obeys nothing": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &locktest.Scripted{Driver: memlock.New()}
				store.OnAcquire = func(ctx context.Context, _ driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
					deadline, timed := ctx.Deadline()
					if obeys && timed {
						time.Sleep(time.Until(deadline)) // it does not look at a cancellation
					} else {
						time.Sleep(time.Minute)
					}
					return driver.Grant{}, errBroken
				}
				var d driver.Driver = store
				if obeys {
					d = obedient{store}
				}
				l := newLocker(t, d)
				start := time.Now()
				timed, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := l.Acquire(timed, "a")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, 100*time.Millisecond, time.Since(start))

				start = time.Now()
				cancelled, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				_, err = l.Acquire(cancelled, "a")
				require.ErrorIs(t, err, context.Canceled)
				if !obeys {
					assert.Equal(t, 100*time.Millisecond, time.Since(start))
				}
				assert.LessOrEqual(t, time.Since(start), 250*time.Millisecond)

				start = time.Now()
				_, err = l.TryAcquire(context.Background(), "a", lock.WithRetryFor(2*time.Second))
				require.ErrorIs(t, err, lock.ErrUnavailable)
				assert.Equal(t, 2*time.Second, time.Since(start))
				time.Sleep(2 * time.Minute) // the calls end by themselves
			})
		})
	}
}

// TestDriverThatObeysDeadlinesIsCalledOnTheSpot looks at the stack that the driver is called on.
func TestDriverThatObeysDeadlinesIsCalledOnTheSpot(t *testing.T) {
	store := &locktest.Scripted{Driver: memlock.New()}
	var onTheSpot bool
	store.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
		stack := make([]byte, 1<<16)
		onTheSpot = strings.Contains(string(stack[:runtime.Stack(stack, false)]), "TestDriverThatObeysDeadlinesIsCalledOnTheSpot(")
		return next(ctx, r)
	}
	timed, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cancelled, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, row := range []struct {
		name string
		ctx  context.Context
		d    driver.Driver
		want bool
	}{
		{"no end", context.Background(), obedient{store}, true},
		{"a deadline", timed, obedient{store}, true},
		{"can be cancelled", cancelled, obedient{store}, true},
		{"obeys nothing", context.Background(), store, false},
	} {
		l := newLocker(t, row.d)
		lease, err := l.TryAcquire(row.ctx, row.name)
		require.NoError(t, err)
		assert.Equal(t, row.want, onTheSpot, row.name)
		require.NoError(t, lease.Release(row.ctx))
	}
}

// TestDriverThatObeysDeadlinesHoldsNobody has its caller give up, or its Locker close, long before the deadline.
func TestDriverThatObeysDeadlinesHoldsNobody(t *testing.T) {
	for name, end := range map[string]func(cancel func(), l *lock.Locker){
		"cancelled": func(cancel func(), _ *lock.Locker) { cancel() },
		"closed":    func(_ func(), l *lock.Locker) { _ = l.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &locktest.Scripted{Driver: memlock.New()}
				store.OnAcquire = func(ctx context.Context, _ driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
					deadline, timed := ctx.Deadline()
					if !timed {
						deadline = time.Now().Add(time.Minute)
					}
					time.Sleep(time.Until(deadline))
					return driver.Grant{}, errBroken
				}
				l := newLocker(t, obedient{store})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				failed := make(chan error)
				go func() {
					_, err := l.Acquire(ctx, "r", lock.WithRetryFor(10*time.Minute))
					failed <- err
				}()
				synctest.Wait()
				start := time.Now()
				go end(cancel, l)
				err := <-failed
				assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrClosed), "%v", err)
				assert.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
				time.Sleep(2 * time.Hour) // the calls end by themselves
			})
		})
	}
}

// TestSlowDriverIsCalledOnAGoroutineForAWhile has answers that take longer than a short call.
func TestSlowDriverIsCalledOnAGoroutineForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &locktest.Scripted{Driver: memlock.New()}
		var calls []driver.Request
		store.OnAcquire = func(ctx context.Context, r driver.Request, next locktest.AcquireFunc) (driver.Grant, error) {
			calls = append(calls, r)
			select {
			case <-time.After(400 * time.Millisecond):
				return next(ctx, r)
			case <-ctx.Done():
				_, _ = next(context.WithoutCancel(ctx), r) // it was on its way
				return driver.Grant{}, ctx.Err()
			}
		}
		l := newLocker(t, obedient{store})
		require.NoError(t, acquire(t, l, "a").Release(t.Context()))
		require.Len(t, calls, 2)
		assert.Equal(t, calls[0], calls[1], "sent once more, for the same holder")
		require.NoError(t, acquire(t, l, "b").Release(t.Context()))
		assert.Len(t, calls, 3)
		time.Sleep(2 * time.Minute)
		require.NoError(t, acquire(t, l, "c").Release(t.Context()))
		assert.Len(t, calls, 5)
	})
}

// TestC07_DeadlineIsTheCallers has the client's own timer be sooner than the context's.
func TestC07_DeadlineIsTheCallers(t *testing.T) {
	store := &locktest.Scripted{Driver: memlock.New()}
	store.OnAcquire = func(ctx context.Context, _ driver.Request, _ locktest.AcquireFunc) (driver.Grant, error) {
		deadline, _ := ctx.Deadline()
		for time.Now().Before(deadline) { // as a socket's deadline may fire before a timer does
		}
		return driver.Grant{}, errBroken
	}
	l := newLocker(t, obedient{store})
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := l.TryAcquire(ctx, "a")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
	}
}
