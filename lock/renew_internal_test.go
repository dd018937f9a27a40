package lock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// TestL08_AnswerTakenInAfterTheDeadline has the process stand still between the store's yes and its
// taking in, and the watch not have run yet.
func TestL08_AnswerTakenInAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(noDriver{})
		require.NoError(t, err)
		l.armed = time.Now() // so nothing is due before the watch looks, and it never does
		claim := fence.Claim{Resource: "a", Token: 1, Holder: uuid.New()}
		sent := time.Now()
		le, err := l.lease(t.Context(), claim, l.defaults, sent, time.Second, false)
		require.NoError(t, err)
		time.Sleep(time.Second)
		err = le.takeIn(driver.Renewal{Claim: claim, TTL: time.Minute}, sent.Add(time.Second/2), nil)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, le.Err(), ErrLost)
		require.ErrorIs(t, context.Cause(le.Context()), ErrLost)
	})
}

// TestClose_GrantThatArrivesMeanwhileIsNoLease has the grant come between Close's look at what is held and
// its end.
func TestClose_GrantThatArrivesMeanwhileIsNoLease(t *testing.T) {
	l, err := New(noDriver{})
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	claim := fence.Claim{Resource: "a", Token: 1, Holder: uuid.New()}
	_, err = l.lease(t.Context(), claim, l.defaults, time.Now(), time.Second, false)
	require.ErrorIs(t, err, ErrClosed)
	require.True(t, l.leases.empty())
}
