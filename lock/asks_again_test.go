package lock_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

// TestL11_WhenAWaiterAsksAgain has a store that says one thing to it, and 10 ms later another.
func TestL11_WhenAWaiterAsksAgain(t *testing.T) {
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		says    driver.Queued
		told    []time.Duration // turns, by their After
		after   time.Duration   // it asks
		overdue time.Duration   // and says
	}{
		"nothing known":                 {driver.Queued{}, nil, time.Second, 0},
		"nothing known, with two ahead": {driver.Queued{Ahead: 2}, nil, time.Second, 0},
		"first, at an expiry":           {driver.Queued{RetryAfter: 300 * ms}, nil, 305 * ms, 5 * ms},
		"third, at an expiry":           {driver.Queued{RetryAfter: 300 * ms, Ahead: 2}, nil, 555 * ms, 255 * ms},
		"an expiry to come":             {driver.Queued{RetryAfter: 5 * time.Second}, nil, time.Second, 0},
		"its turn":                      {driver.Queued{RetryAfter: 5 * time.Second}, []time.Duration{0}, 10 * ms, 0},
		"second at a release":           {driver.Queued{RetryAfter: 5 * time.Second, Ahead: 1}, []time.Duration{250 * ms}, 265 * ms, 5 * ms},
		"third at a release":            {driver.Queued{RetryAfter: 5 * time.Second, Ahead: 2}, []time.Duration{500 * ms}, 515 * ms, 255 * ms},
		"far behind":                    {driver.Queued{Ahead: 9}, []time.Duration{2 * time.Second}, time.Second, 740 * ms},
		"its turn before another's":     {driver.Queued{Ahead: 1}, []time.Duration{0, 250 * ms}, 10 * ms, 0},
		"its turn after another's":      {driver.Queued{Ahead: 1}, []time.Duration{250 * ms, 0}, 10 * ms, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := locktest.ScriptAll(memlock.New())
				var (
					asked time.Time
					waits int
					tell  func(driver.Turn)
				)
				d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
					tell = turn
					return next(ctx, listener, ready, turn)
				}
				d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
					waits++
					switch waits {
					case 1: // before the subscription, with another expiry that must not be kept in mind
						return driver.Grant{}, &driver.Queued{Ticket: 7, RetryAfter: time.Millisecond}
					case 2:
						asked = time.Now()
						time.AfterFunc(10*ms, func() {
							for _, after := range row.told {
								tell(driver.Turn{Holder: r.Holder, After: after})
							}
						})
						said := row.says
						said.Ticket = 7
						return driver.Grant{}, &said
					}
					assert.Equal(t, row.after, time.Since(asked))
					if row.overdue >= 0 {
						assert.Equal(t, row.overdue, p.Overdue)
					}
					assert.EqualValues(t, 7, p.Ticket)
					return next(ctx, r, p)
				}
				acquire(t, newLocker(t, d), "r")
				require.Equal(t, 3, waits)
			})
		})
	}
}

// TestL12_TurnBeforeTheAnswer has a waiter be told of its turn before it knows that it stands in line.
func TestL12_TurnBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		held := make(chan *lock.Lease, 1)
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			g, err := next(ctx, r, p)
			if r.Label == "waits" && len(held) == 1 {
				assert.NoError(t, (<-held).Release(ctx))
			}
			return g, err
		}
		l := newLocker(t, d)
		other := acquire(t, l, "s")
		_, next := queue(t, 1, "s", l) // there is a subscription
		time.Sleep(1500 * time.Millisecond)
		held <- acquire(t, l, "r")
		start := time.Now()
		acquire(t, l, "r", lock.WithLabel("waits"))
		assert.Zero(t, time.Since(start))
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
	})
}

// TestL12_LostSubscription has one end that was up, and no other come: the first in line polls.
func TestL12_LostSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		drop, down := context.WithCancel(t.Context())
		var (
			listens atomic.Int32
			first   context.Context
		)
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			if listens.Add(1) == 1 {
				first = ctx
			}
			if drop.Err() != nil {
				return errBroken
			}
			return next(drop, listener, ready, turn)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		_, next := queue(t, 1, "r", l)
		time.Sleep(5500 * time.Millisecond)
		require.EqualValues(t, 1, listens.Load())
		down()
		time.Sleep(20 * time.Millisecond)
		require.Greater(t, listens.Load(), int32(1), "it is tried again soon")
		require.Error(t, first.Err(), "nothing of it is left")
		time.Sleep(30 * time.Second)
		assert.LessOrEqual(t, listens.Load(), int32(70), "and then about once a second")
		start := time.Now()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		assert.LessOrEqual(t, time.Since(start), 200*time.Millisecond)
	})
}

// TestL12_SubscriptionIsBackSoon has one be lost that took long to come.
func TestL12_SubscriptionIsBackSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		var tries atomic.Int32
		d.OnListen = func(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn), next locktest.ListenFunc) error {
			if tries.Add(1) != 10 {
				return errors.New("no subscription")
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return next(ctx, listener, ready, turn)
		}
		l := newLocker(t, d)
		held := acquire(t, l, "r")
		_, next := queue(t, 1, "r", l)
		for tries.Load() < 10 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5*time.Second + 20*time.Millisecond)
		assert.GreaterOrEqual(t, tries.Load(), int32(11))
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
	})
}

// TestL12_ManyWithoutASubscription has those behind the first two ask less often, and still be taken for alive.
func TestL12_ManyWithoutASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New()
		d := locktest.ScriptAll(store)
		d.OnListen = func(context.Context, uuid.UUID, func(), func(driver.Turn), locktest.ListenFunc) error {
			return errors.New("no subscription")
		}
		asked := map[string]*atomic.Int32{}
		for i := range 30 {
			asked[strconv.Itoa(i)] = new(atomic.Int32)
		}
		d.OnWait = func(ctx context.Context, r driver.Request, p driver.Place, next locktest.WaitFunc) (driver.Grant, error) {
			asked[r.Label].Add(1)
			return next(ctx, r, p)
		}
		l := newLocker(t, d)
		acquire(t, newLocker(t, store), "r")
		for i := range 30 {
			go func() {
				_, err := l.Acquire(t.Context(), "r", lock.WithLabel(strconv.Itoa(i)))
				assert.ErrorIs(t, err, lock.ErrClosed)
			}()
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		assert.InDelta(t, 200, asked["0"].Load(), 30, "every 100 to 200 ms")
		assert.InDelta(t, 200, asked["1"].Load(), 30)
		assert.InDelta(t, 67, asked["3"].Load(), 15, "every third of that")
		assert.InDelta(t, 30, asked["29"].Load(), 1, "once a second")
		require.NoError(t, l.Close(t.Context()))
	})
}
