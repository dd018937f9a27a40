package memlock_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"

	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, func(*testing.T) driver.Driver { return memlock.New() })
}

func request(resource string, ttl time.Duration) driver.Request {
	return driver.Request{Resource: resource, Holder: uuid.New(), TTL: ttl}
}

// TestL17_TokensRiseWithinAMicrosecond stops the clock.
func TestL17_TokensRiseWithinAMicrosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		var last fence.Token
		for range 10 {
			r := request("a", time.Second)
			g, err := d.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.Greater(t, g.Token, last)
			require.GreaterOrEqual(t, int64(g.Token), time.Now().UnixMicro(), "after a restart they would not rise")
			last = g.Token
			require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "a", Token: g.Token, Holder: r.Holder}, 0))
		}
	})
}

// TestL10_TicketsRiseWithinAMicrosecond stops the clock.
func TestL10_TicketsRiseWithinAMicrosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		var last int64
		for _, name := range []string{"a", "a", "a", "b", "b", "b"} {
			_, err := d.Wait(t.Context(), request(name, time.Second), driver.Place{})
			if err == nil {
				continue // the first of a name has it
			}
			var queued *driver.Queued
			require.ErrorAs(t, err, &queued)
			require.Greater(t, queued.Ticket, last)
			last = queued.Ticket
		}
	})
}

// TestMemoryIsBoundedByWhatIsLive has many names, each used once, and then a few.
func TestMemoryIsBoundedByWhatIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		use := func(n int) {
			for i := range n {
				name := strconv.Itoa(i)
				r := request(name, time.Second)
				_, err := d.Acquire(t.Context(), r)
				require.NoError(t, err)
				_, err = d.Wait(t.Context(), request(name, time.Second), driver.Place{})
				require.Error(t, err)
				require.NoError(t, d.Leave(t.Context(), name, uuid.New(), uuid.New()))
				require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: name, Holder: uuid.New()}, 0))
			}
		}
		use(2000)
		require.Greater(t, d.Size(), 2000)
		time.Sleep(2 * driver.AbandonFor)
		use(100)
		require.Less(t, d.Size(), 800)
		for range 1000 { // what only waits, or leaves
			time.Sleep(driver.AbandonFor)
			_, err := d.Wait(t.Context(), request(uuid.NewString(), time.Second), driver.Place{})
			require.NoError(t, err)
		}
		require.Less(t, d.Size(), 200)
		for range 1000 {
			time.Sleep(driver.AbandonFor)
			require.NoError(t, d.Leave(t.Context(), uuid.NewString(), uuid.New(), uuid.New()))
		}
		require.Less(t, d.Size(), 200)
	})
}

// TestL19_ARaisedResourceIsRemembered until the clock has passed it, however much is forgotten.
func TestL19_ARaisedResourceIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		past := fence.Token(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, d.Raise(t.Context(), "raised", past))
		for range 4 {
			for range 200 {
				_, err := d.Acquire(t.Context(), request(uuid.NewString(), time.Second))
				require.NoError(t, err)
			}
			time.Sleep(20 * time.Minute)
			r := request("raised", time.Second)
			g, err := d.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.Greater(t, g.Token, past)
			past = g.Token
			require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "raised", Token: g.Token, Holder: r.Holder}, 0))
		}
	})
}

// TestWhatIsLiveIsNotSweptAway has a lease, a line and a turn, each of a resource that has nothing else.
func TestWhatIsLiveIsNotSweptAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		_, err := d.Acquire(t.Context(), request("lease", time.Minute))
		require.NoError(t, err)
		_, err = d.Acquire(t.Context(), request("line", time.Millisecond))
		require.NoError(t, err)
		_, err = d.Wait(t.Context(), request("line", time.Minute), driver.Place{})
		require.Error(t, err)
		r := request("turn", time.Minute)
		_, err = d.Acquire(t.Context(), r)
		require.NoError(t, err)
		_, err = d.Wait(t.Context(), request("turn", time.Minute), driver.Place{})
		require.Error(t, err)
		require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "turn", Token: 1, Holder: r.Holder}, 0))
		time.Sleep(10 * time.Millisecond)
		for range 200 {
			_, err = d.Acquire(t.Context(), request(uuid.NewString(), time.Minute))
			require.NoError(t, err)
		}
		var held *driver.Held
		for _, name := range []string{"lease", "line", "turn"} {
			_, err = d.Acquire(t.Context(), request(name, time.Minute))
			assert.ErrorAs(t, err, &held, name)
		}
	})
}

// TestListen_TwoOfOneID both hear until they end, and nobody after that.
func TestListen_TwoOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		id := uuid.New()
		told := make([]int, 2)
		ends := make([]context.CancelFunc, 2)
		for i := range told {
			ctx, cancel := context.WithCancel(t.Context())
			ends[i] = cancel
			go func() {
				assert.ErrorIs(t, d.Listen(ctx, id, func() {}, func(driver.Turn) { told[i]++ }), context.Canceled)
			}()
		}
		synctest.Wait()
		giveTurn := func() {
			r := request(uuid.NewString(), time.Second)
			g, err := d.Acquire(t.Context(), r)
			require.NoError(t, err)
			_, err = d.Wait(t.Context(), request(r.Resource, time.Second), driver.Place{Listener: id})
			require.Error(t, err)
			require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: r.Resource, Token: g.Token, Holder: r.Holder}, 0))
			synctest.Wait()
		}
		giveTurn()
		assert.Equal(t, []int{1, 1}, told)
		ends[0]()
		synctest.Wait()
		giveTurn()
		assert.Equal(t, []int{1, 2}, told)
		before := d.Size()
		ends[1]()
		synctest.Wait()
		assert.Less(t, d.Size(), before)
	})
}

// TestInspect_CountsWhoHasTheTurn as one who waits.
func TestInspect_CountsWhoHasTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		r := request("a", time.Second)
		g, err := d.Acquire(t.Context(), r)
		require.NoError(t, err)
		for range 2 {
			_, err = d.Wait(t.Context(), request("a", time.Second), driver.Place{})
			require.Error(t, err)
		}
		require.NoError(t, d.Release(t.Context(), fence.Claim{Resource: "a", Token: g.Token, Holder: r.Holder}, 0))
		info, err := d.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, driver.Info{Holder: fence.Fingerprint(uuid.Nil), Waiters: 2}, info)
		time.Sleep(driver.TurnFor)
		info, err = d.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 1, info.Waiters)
		time.Sleep(10 * time.Second)
		info, err = d.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Zero(t, info.Waiters, "the dead")
	})
}
