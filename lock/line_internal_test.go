package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestL12_WhatAWaiterKeepsInMind has it be told several things before it looks.
func TestL12_WhatAWaiterKeepsInMind(t *testing.T) {
	turn, standBy, anew := message{}, message{turn: driver.Turn{After: driver.TurnFor}}, message{anew: true}
	for name, row := range map[string]struct {
		told []message
		want message
	}{
		"its turn":                     {[]message{turn}, turn},
		"its turn before another's":    {[]message{turn, standBy}, turn},
		"its turn after another's":     {[]message{standBy, turn}, turn},
		"a subscription, and its turn": {[]message{anew, turn}, turn},
		"its turn, and a subscription": {[]message{turn, anew}, turn},
		"the later of two":             {[]message{{turn: driver.Turn{After: time.Hour}}, standBy}, standBy},
	} {
		t.Run(name, func(t *testing.T) {
			n := line{waiters: map[uuid.UUID]*waiter{}}
			w := &waiter{wake: make(chan struct{}, 1)}
			for range 2 { // what it has read is past
				for _, m := range row.told {
					w.hear(m)
				}
				<-w.wake
				assert.Equal(t, row.want, n.heard(w))
				assert.Empty(t, w.wake)
			}
			w.rouse()
			assert.Empty(t, w.wake, "nothing is unread")
		})
	}
}

// forgetful is a store that loses answers.
type forgetful struct {
	*memlock.Driver
	waits atomic.Int32
}

func (f *forgetful) Wait(ctx context.Context, r driver.Request, p driver.Place) (driver.Grant, error) {
	g, err := f.Driver.Wait(ctx, r, p)
	if f.waits.Add(1)%2 == 0 {
		return driver.Grant{}, errors.New("no answer")
	}
	return g, err
}

// TestL13_LineIsEmptyAfterAll has places in line be taken and given up, with lost answers between.
func TestL13_LineIsEmptyAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(&forgetful{Driver: memlock.New()})
		require.NoError(t, err)
		held, err := l.TryAcquire(t.Context(), "r")
		require.NoError(t, err)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err = l.Acquire(ctx, "r")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Millisecond)
			l.line.mu.Lock()
			assert.Empty(t, l.line.waiters)
			assert.Zero(t, l.line.inLine)
			assert.True(t, l.line.listening)
			l.line.mu.Unlock()
		}
		time.Sleep(lingerFor + firstRetry)
		l.line.mu.Lock()
		assert.False(t, l.line.listening)
		l.line.mu.Unlock()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, l.Close(t.Context()))
	})
}
