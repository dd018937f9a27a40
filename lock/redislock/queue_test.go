package redislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

func TestL10_TheTurnIsTheFirstOnesAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(3)
	assert.Equal(t, members(ws...), s.line())
	s.release(c)

	assert.Equal(t, "turn "+ws[0].holder.String(), s.value())
	assert.LessOrEqual(t, s.ttl(s.leaseKey()), driver.TurnFor)
	assert.Positive(t, s.ttl(s.leaseKey()))
	assert.Equal(t, members(ws[1:]...), s.line(), "who has the turn has left the line")
	_, err := s.Acquire(t.Context(), s.request(uuid.New()))
	var held *driver.Held
	require.ErrorAs(t, err, &held)
	assert.LessOrEqual(t, held.RetryAfter, driver.TurnFor)
	set, err := s.rdb.SetNX(t.Context(), s.leaseKey(), "plain", time.Second).Result()
	require.NoError(t, err)
	assert.False(t, set, "a program of the plain recipe jumped the line")
	assert.Equal(t, 0, ws[1].queued(time.Hour).Ahead, "nobody is passed over who has the turn")

	next := ws[0].granted(0)
	assert.Greater(t, next.Token, c.Token)
	assert.Equal(t, fmt.Sprintf("%v %v %s", ws[0].holder, next.Token, s.request(uuid.Nil).Label), s.value())
	assert.Greater(t, s.ttl(s.leaseKey()), 19*time.Second)
}

func TestL10_TryNeverJumpsTheLine(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	ws := s.waiters(2)
	require.NoError(t, s.rdb.Del(t.Context(), s.leaseKey()).Err()) // as if it had expired
	_, err := s.Acquire(t.Context(), s.request(uuid.New()))
	require.ErrorAs(t, err, new(*driver.Held))
	assert.Equal(t, "turn "+ws[0].holder.String(), s.value(), "and who found it free has told the first")
	ws[0].granted(0)
}

func TestL12_AForeignDelIsNoticed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(2)
	s.release(c)
	require.NoError(t, s.rdb.Del(t.Context(), s.leaseKey()).Err()) // the turn of ws[0]
	ws[0].granted(0)
	assert.Equal(t, members(ws[1]), s.line())
	require.NoError(t, s.rdb.Del(t.Context(), s.leaseKey()).Err()) // its lease
	ws[1].granted(0)
}

func TestL12_WhoMissedItsTurnTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(2)
	s.release(c)
	s.awaitGone(s.leaseKey())
	ws[0].granted(0) // by its ticket it is before ws[1]
	assert.Equal(t, members(ws[1]), s.line())
}

func TestL11_TheDeadArePassedOver(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(5)
	s.release(c) // ws[0] is dead, too
	s.awaitGone(s.leaseKey())
	q := ws[4].queued(2*driver.TurnFor - 100*time.Millisecond)
	assert.Equal(t, 1, q.Ahead, "three were before it: one has missed its turn, and the next one has it now")
	assert.Equal(t, 100*time.Millisecond, q.RetryAfter, "what is left of that turn")
	assert.Equal(t, "turn "+ws[2].holder.String(), s.value())
	assert.Equal(t, members(ws[3:]...), s.line())
	s.awaitGone(s.leaseKey())
	c = ws[4].granted(driver.TurnFor)
	assert.Empty(t, s.line())
	s.release(c)
	assert.Empty(t, s.value())
}

func TestL03_ReplayedJoinKeepsItsTicket(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	ws := s.waiters(3)
	ticket := ws[1].ticket
	ws[1].ticket = 0 // the answer was lost
	assert.Equal(t, 1, ws[1].queued(0).Ahead)
	assert.Equal(t, ticket, ws[1].ticket)
	assert.WithinDuration(t, s.clock(), time.UnixMicro(ticket), 5*time.Second)
	assert.Len(t, s.line(), 3)
}

func TestL10_TheTicketKeepsThePlace(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	ws := s.waiters(3)
	require.NoError(t, s.rdb.Del(t.Context(), s.queueKey(), s.seenKey()).Err())
	for _, i := range []int{2, 0, 1} {
		ws[i].queued(0)
	}
	assert.Equal(t, members(ws...), s.line())
}

func TestL10_AClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(2)
	ws[0].age(-time.Hour, time.Second)
	ws[1].age(-time.Hour-time.Second, time.Second)
	for i := 2; i < 5; i++ {
		w := s.waiter()
		assert.Equal(t, i, w.queued(0).Ahead)
		assert.Greater(t, w.ticket, ws[i-1].ticket)
		ws = append(ws, w)
	}
	for i, w := range ws {
		assert.Equal(t, i, w.queued(0).Ahead)
	}
	assert.Equal(t, members(ws...), s.line())
	s.release(c)
	ws[0].granted(0)
}

func TestL11_TheDeadLoseTheirPlace(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]struct{ came, seen time.Duration }{
		"never asked again":           {10 * time.Second, 0},
		"asked again":                 {time.Minute, 10 * time.Second},
		"when the clock was ahead":    {-time.Hour, 0},
		"asked when it was ahead":     {time.Minute, -time.Hour},
		"asked before it was, behind": {time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.acquire()
			ws := s.waiters(3)
			ws[0].age(dead.came, dead.seen)
			ws[1].queued(0)
			assert.ElementsMatch(t, members(ws[1:]...), s.line())
			ws[0].queued(0) // it only slept
			assert.Len(t, s.line(), 3)
		})
	}
}

func TestL11_TheLivingKeepTheirPlace(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]struct{ came, seen time.Duration }{
		"just came":           {time.Second, 0},
		"asks every second":   {time.Hour, time.Second},
		"was late":            {time.Hour, 3 * time.Second},
		"the clock was ahead": {-time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.acquire()
			ws := s.waiters(2)
			ws[0].age(alive.came, alive.seen)
			ws[1].queued(0)
			assert.ElementsMatch(t, members(ws...), s.line())
		})
	}
}

func TestL11_TheDeadNeverAccumulate(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	dead := func(n int, came, seen time.Duration) {
		for range n {
			s.waiter().age(came, seen)
		}
	}
	dead(100, 2*time.Hour, 10*time.Second)
	first := s.waiter()
	first.age(90*time.Minute, time.Second)
	dead(100, time.Hour, 0)
	second := s.waiter()
	second.queued(0)
	for n := 0; n < 1000 && len(s.line()) > 2; n++ { // far behind, one in eight looks
		first.queued(0)
		second.queued(0)
	}
	assert.Equal(t, members(first, second), s.line())
	n, err := s.rdb.ZCard(t.Context(), s.seenKey()).Result()
	require.NoError(t, err)
	assert.LessOrEqual(t, n, int64(2))
}

// TestQueueExpires has the keys of a queue go by themselves, but not while it is in use.
func TestQueueExpires(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	ws := s.waiters(2)
	expires := func(key string) {
		t.Helper()
		assert.Greater(t, s.ttl(key), 50*time.Second)
		assert.LessOrEqual(t, s.ttl(key), time.Minute)
		require.NoError(t, s.rdb.Expire(t.Context(), key, 5*time.Second).Err())
	}
	expires(s.queueKey())
	assert.False(t, s.exists(s.seenKey()))
	ws[1].queued(0)
	expires(s.queueKey())
	expires(s.seenKey())
	for range 500 { // they come and go so fast that none is ever first, and none asks again
		s.waiter().queued(0)
	}
	expires(s.queueKey())
}

func TestLeave_GivesUpThePlace(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	ws := s.waiters(3)
	ws[1].queued(0)
	ws[1].leave()
	assert.Equal(t, members(ws[0], ws[2]), s.line())
	assert.Equal(t, 1, ws[2].queued(0).Ahead)
	seen, err := s.rdb.ZRange(t.Context(), s.seenKey(), 0, -1).Result()
	require.NoError(t, err)
	assert.Equal(t, members(ws[2]), seen)
}

func TestLeave_GivesTheTurnOn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(4)
	s.release(c)
	ws[0].leave()
	assert.Equal(t, "turn "+ws[1].holder.String(), s.value())
	require.NoError(t, s.Release(t.Context(), fence.Claim{Resource: s.resource, Holder: ws[1].holder}, 0))
	assert.Equal(t, "turn "+ws[2].holder.String(), s.value())
	ws[2].granted(0)
	ws[2].leave() // it doesn't know that it has the lease
	assert.Equal(t, "turn "+ws[3].holder.String(), s.value())
	ws[3].leave()
	assert.Empty(t, s.value())
}

func TestL04_TheTombstoneStopsALateWait(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	free := s.waiter()
	free.leave()
	_, err := free.ask(0)
	require.ErrorContains(t, err, "abandoned")
	assert.False(t, s.exists(s.leaseKey()))

	c := s.acquire()
	ws := s.waiters(2)
	ws[0].leave()
	for _, ticket := range []int64{0, ws[0].ticket} {
		ws[0].ticket = ticket
		_, err := ws[0].ask(time.Hour)
		require.ErrorContains(t, err, "abandoned")
		assert.Equal(t, members(ws[1]), s.line())
	}
	tombstone := s.leaseKey()
	tombstone = "{" + tombstone + "}:gone:" + ws[0].holder.String()
	assert.Greater(t, s.ttl(tombstone), driver.AbandonFor-5*time.Second)
	assert.LessOrEqual(t, s.ttl(tombstone), driver.AbandonFor)
	s.release(c)
	assert.Equal(t, "turn "+ws[1].holder.String(), s.value())
}

func TestL21_MinHoldIsNobodysTurn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(2)
	require.NoError(t, s.Release(t.Context(), c, 300*time.Millisecond))
	assert.Equal(t, fmt.Sprintf("released %v %s", c.Token, s.request(uuid.Nil).Label), s.value())
	q := ws[0].queued(0)
	assert.Equal(t, 0, q.Ahead)
	assert.LessOrEqual(t, q.RetryAfter, 300*time.Millisecond)
	s.awaitGone(s.leaseKey())
	assert.Equal(t, 0, ws[1].queued(0).Ahead)
	ws[0].granted(0)
}

// TestWrongType has other programs use our keys for something else. It stays as it is, and nobody holds
// anything.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*store) string{
		"lease": (*store).leaseKey, "counter": (*store).fenceKey, "queue": (*store).queueKey, "seen": (*store).seenKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothStores(t, func(s *store) {
				foreign := func() {
					require.NoError(t, s.rdb.XAdd(s.Context(), &redis.XAddArgs{Stream: key(s), Values: []string{"a", "b"}}).Err())
				}
				wantError := func(err error) {
					t.Helper()
					require.ErrorContains(t, err, "WRONGTYPE")
					var held *driver.Held
					require.NotErrorAs(t, err, &held)
					var queued *driver.Queued
					require.NotErrorAs(t, err, &queued)
				}
				if name == "queue" || name == "seen" { // looked at only when there are waiters, or somebody holds
					c := s.acquire()
					foreign()
					w := s.waiter()
					if name == "seen" {
						w.queued(0)
					}
					_, err := w.ask(0)
					wantError(err)
					if name == "queue" {
						wantError(s.Release(s.Context(), c, 0))
					}
				} else {
					foreign()
					_, err := s.Acquire(s.Context(), s.request(uuid.New()))
					wantError(err)
					_, err = s.waiter().ask(0)
					wantError(err)
					_, err = s.Break(s.Context(), s.request(uuid.New()), "")
					wantError(err)
					if name == "lease" {
						s.rdb.ZAdd(s.Context(), s.queueKey(), redis.Z{Score: 1, Member: s.waiter().member()})
						_, err = s.Acquire(s.Context(), s.request(uuid.New()))
						wantError(err)
						_, err = s.Inspect(s.Context(), s.resource)
						wantError(err)
					} else {
						assert.False(t, s.exists(s.leaseKey()))
						wantError(s.Raise(s.Context(), s.resource, 5))
					}
				}
				kind, err := s.rdb.Type(s.Context(), key(s)).Result()
				require.NoError(t, err)
				assert.Equal(t, "stream", kind)
			})
		})
	}
}

func TestL10_TurnDatedInTheFuture(t *testing.T) {
	t.Parallel()
	for _, try := range []string{"waits", "does not wait"} {
		s := newStore(t)
		s.set(s.leaseKey(), "turn "+uuid.NewString(), time.Hour) // the clock was set back since
		l := newLocker(t, s.rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var err error
		if try == "waits" {
			_, err = l.Acquire(ctx, s.resource)
		} else {
			_, err = l.TryAcquire(ctx, s.resource)
		}
		require.NoError(t, err, try)
	}
}

// TestL10_TryAcquireAfterACrash has only the dead stand in line.
func TestL10_TryAcquireAfterACrash(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.acquire()
	for range 100 {
		s.waiter().age(10*time.Second, 0)
	}
	require.NoError(t, s.rdb.Del(t.Context(), s.leaseKey()).Err()) // it has expired
	lease, err := newLocker(t, s.rdb).TryAcquire(t.Context(), s.resource)
	require.NoError(t, err)
	assert.Empty(t, s.line())
	require.NoError(t, lease.Release(t.Context()))
}
