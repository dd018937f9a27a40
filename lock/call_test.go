package lock_test

import (
	"context"
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
				assert.Equal(t, 100*time.Millisecond, time.Since(start))

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
		{"can be cancelled", cancelled, obedient{store}, false},
		{"obeys nothing", context.Background(), store, false},
	} {
		l := newLocker(t, row.d)
		lease, err := l.TryAcquire(row.ctx, row.name)
		require.NoError(t, err)
		assert.Equal(t, row.want, onTheSpot, row.name)
		require.NoError(t, lease.Release(row.ctx))
	}
}
