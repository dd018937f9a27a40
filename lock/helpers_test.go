package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLocker returns a Locker that is closed at the end of the test.
func newLocker(t *testing.T, d driver.Driver, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(d, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			assert.ErrorIs(t, err, lock.ErrClosed)
		}
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, resource string, opts ...lock.Option) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(context.Background(), resource, opts...)
	require.NoError(t, err)
	return lease
}

// endOf waits for the lease's end and returns its cause.
func endOf(lease *lock.Lease) error {
	<-lease.Context().Done()
	return context.Cause(lease.Context())
}

// sealFunc is a Sealer.
type sealFunc func(context.Context, fence.Claim) error

func (f sealFunc) Admit(ctx context.Context, c fence.Claim) error { return f(ctx, c) }
