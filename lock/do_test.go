package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestDo(t *testing.T) {
	errFn := errors.New("fn failed")
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		l := newLocker(t, store, lock.WithTTL(time.Second))
		free := func() {
			t.Helper()
			require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
		}

		require.NoError(t, l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			c, ok := fence.FromContext(ctx)
			assert.True(t, ok)
			assert.Equal(t, lease.Claim(), c)
			time.Sleep(5 * time.Second) // renewed meanwhile
			return ctx.Err()
		}))
		free()

		require.Equal(t, errFn, l.Do(t.Context(), "a", func(context.Context, *lock.Lease) error { return errFn }))
		free()

		require.NoError(t, l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			return lease.Release(ctx)
		}))
		free()

		assert.PanicsWithValue(t, "p", func() {
			_ = l.Do(t.Context(), "a", func(context.Context, *lock.Lease) error { panic("p") })
		})
		free()

		lost := func(ctx context.Context, lease *lock.Lease) error {
			require.NoError(t, store.Release(ctx, lease.Claim(), 0))
			<-ctx.Done()
			return context.Cause(ctx)
		}
		err := l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			assert.ErrorIs(t, lost(ctx, lease), lock.ErrLost)
			return errFn
		})
		require.ErrorIs(t, err, errFn)
		require.ErrorIs(t, err, lock.ErrLost)

		err = l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			assert.ErrorIs(t, lost(ctx, lease), lock.ErrLost)
			return nil
		})
		var failed *lock.ReleaseError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "a", failed.Resource)
		require.ErrorIs(t, err, lock.ErrLost)

		err = l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			defer func() { _ = lease.Release(ctx) }()
			assert.ErrorIs(t, lost(ctx, lease), lock.ErrLost)
			return nil
		})
		require.ErrorAs(t, err, &failed, "lost under fn, which released what was lost")
		require.ErrorIs(t, err, lock.ErrLost)

		err = l.Do(t.Context(), "a", func(ctx context.Context, lease *lock.Lease) error {
			require.NoError(t, store.Release(ctx, lease.Claim(), 0)) // and nobody has noticed yet
			return errFn
		})
		require.ErrorIs(t, err, errFn)
		require.ErrorIs(t, err, lock.ErrLost)

		holder := acquire(t, l, "a")
		err = l.Do(t.Context(), "a", func(context.Context, *lock.Lease) error { t.Error("ran"); return nil }, lock.WithoutWaiting())
		require.ErrorIs(t, err, lock.ErrHeld)
		require.NoError(t, holder.Release(t.Context()))

		err = l.Do(t.Context(), "a", func(ctx context.Context, _ *lock.Lease) error {
			return l.Close(context.WithoutCancel(ctx))
		})
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}
