package redislock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock/driver"
)

// unchanged returns a check that the lease key and the counter are as they were.
func (s *store) unchanged() func() {
	value, counter, left := s.value(), s.get(s.fenceKey()), s.ttl(s.leaseKey())
	return func() {
		s.Helper()
		assert.Equal(s, value, s.value())
		assert.Equal(s, counter, s.get(s.fenceKey()))
		assert.LessOrEqual(s, s.ttl(s.leaseKey()), left)
	}
}

func TestL22_ResumeExchangesHolderAndToken(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		c := s.acquire()
		r := s.request(uuid.New())
		r.TTL, r.Label = 0, "the next request"
		before := s.ttl(s.leaseKey())
		g, err := s.Resume(s.Context(), c, r)
		require.NoError(t, err)
		assert.Greater(t, g.Token, c.Token)
		assert.Equal(t, fmt.Sprintf("%v %v the next request", r.Holder, g.Token), s.value())
		assert.LessOrEqual(t, s.ttl(s.leaseKey()), before, "its end was moved")
		assert.Greater(t, s.ttl(s.leaseKey()), before-5*time.Second)
		assert.LessOrEqual(t, g.TTL, before)
		assert.Greater(t, g.TTL, before-5*time.Second)
		assert.Equal(t, g.Token.String(), s.get(s.fenceKey()))

		same := s.unchanged()
		replay, err := s.Resume(s.Context(), c, r)
		require.NoError(t, err)
		assert.Equal(t, g.Token, replay.Token)
		assert.LessOrEqual(t, replay.TTL, g.TTL)
		same()
		_, err = s.Resume(s.Context(), c, s.request(uuid.New()))
		require.ErrorIs(t, err, driver.ErrLost, "a double click")
		require.ErrorIs(t, s.Release(s.Context(), c, 0), driver.ErrLost)
		same()

		next := s.request(uuid.New())
		g, err = s.Resume(s.Context(), fence.Claim{Resource: s.resource, Token: g.Token, Holder: r.Holder}, next)
		require.NoError(t, err)
		assert.Equal(t, next.TTL, g.TTL)
		assert.Greater(t, s.ttl(s.leaseKey()), next.TTL-5*time.Second)
	})
}

func TestL22_ResumeComparesAll(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		_, err := s.Resume(s.Context(), fence.Claim{Resource: s.resource, Token: 1, Holder: uuid.New()}, s.request(uuid.New()))
		require.ErrorIs(t, err, driver.ErrLost)
		assert.False(t, s.exists(s.leaseKey()))
		assert.False(t, s.exists(s.fenceKey()))

		c := s.acquire()
		same := s.unchanged()
		for _, wrong := range []fence.Claim{
			{Token: c.Token, Holder: uuid.New()},
			{Token: c.Token + 1, Holder: c.Holder},
			{Token: c.Token - 1, Holder: c.Holder},
			{Token: c.Token * 10, Holder: c.Holder},
			{Token: c.Token / 10, Holder: c.Holder},
			{Holder: c.Holder},
			{Token: c.Token},
		} {
			wrong.Resource = s.resource
			_, err := s.Resume(s.Context(), wrong, s.request(uuid.New()))
			require.ErrorIs(t, err, driver.ErrLost, "%v", wrong)
			same()
		}
		// Tokens are compared exactly, not as doubles.
		s.set(s.leaseKey(), c.Holder.String()+" 9007199254740993 x", time.Minute)
		_, err = s.Resume(s.Context(), fence.Claim{Resource: s.resource, Token: 9007199254740992, Holder: c.Holder}, s.request(uuid.New()))
		require.ErrorIs(t, err, driver.ErrLost)

		for _, value := range []string{c.Holder.String(), c.Holder.String() + " ", c.Holder.String() + " " + c.Token.String(), "turn " + c.Holder.String(), fmt.Sprintf("released %v x", c.Token)} {
			s.set(s.leaseKey(), value, time.Minute)
			_, err := s.Resume(s.Context(), c, s.request(uuid.New()))
			require.ErrorIs(t, err, driver.ErrLost, value)
			assert.Equal(t, value, s.value())
		}
	})
}

// TestL04_LateResumeAfterItWasAbandoned has the request arrive when its caller is gone.
func TestL04_LateResumeAfterItWasAbandoned(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	r := s.request(uuid.New())
	require.NoError(t, s.Release(t.Context(), fence.Claim{Resource: s.resource, Holder: r.Holder}, 0))
	same := s.unchanged()
	_, err := s.Resume(t.Context(), c, r)
	require.ErrorContains(t, err, "abandoned")
	require.NotErrorIs(t, err, driver.ErrLost)
	same()
	_, err = s.Break(t.Context(), r, "")
	require.ErrorContains(t, err, "abandoned")
	same()
	_, err = s.Resume(t.Context(), c, s.request(uuid.New()))
	require.NoError(t, err)
}

func TestL23_BreakTakesFromWhoever(t *testing.T) {
	t.Parallel()
	bothStores(t, func(s *store) {
		var last fence.Token
		for _, value := range []string{
			"", uuid.NewString() + " 17 label", "a plain client's", "released 17 label", "turn " + uuid.NewString(), "\x00\xff", uuid.NewString(),
		} {
			if value != "" {
				s.set(s.leaseKey(), value, 0)
			}
			r := s.request(uuid.New())
			g, err := s.Break(s.Context(), r, "")
			require.NoError(t, err, "%q", value)
			assert.Greater(t, g.Token, last)
			assert.Equal(t, r.TTL, g.TTL)
			assert.Equal(t, fmt.Sprintf("%v %v %s", r.Holder, g.Token, r.Label), s.value())
			assert.Greater(t, s.ttl(s.leaseKey()), 19*time.Second)
			last = g.Token

			same := s.unchanged()
			for _, fingerprint := range []string{"", "whatever"} {
				replay, err := s.Break(s.Context(), r, fingerprint)
				require.NoError(t, err)
				assert.Equal(t, g.Token, replay.Token)
			}
			same()
		}
	})
}

func TestL23_BreakOnlyOneHolder(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fingerprint := func() string {
		info, err := s.Inspect(t.Context(), s.resource)
		require.NoError(t, err)
		return info.Holder
	}
	for _, value := range []string{uuid.NewString() + " 17 label", "a plain client's", "", "released 17 label", "\x00\xff" + strings.Repeat("x", 35)} {
		s.set(s.leaseKey(), value, time.Minute)
		same := s.unchanged()
		_, err := s.Break(t.Context(), s.request(uuid.New()), fence.Fingerprint(uuid.New()))
		require.ErrorIs(t, err, driver.ErrLost, "%q", value)
		same()
		_, err = s.Break(t.Context(), s.request(uuid.New()), fingerprint())
		require.NoError(t, err, "%q", value)
		assert.Contains(t, s.value(), s.request(uuid.Nil).Label)
	}
	for name, value := range map[string]string{"free": "", "turn": "turn " + uuid.NewString()} {
		require.NoError(t, s.rdb.Del(t.Context(), s.leaseKey()).Err())
		if value != "" {
			s.set(s.leaseKey(), value, time.Minute)
		}
		_, err := s.Break(t.Context(), s.request(uuid.New()), fingerprint())
		require.ErrorIs(t, err, driver.ErrLost, name)
		assert.Equal(t, value, s.value())
	}
}

// TestL23_BreakLeavesTheNextHolderAlone has the lease change hands between the look and the break.
func TestL23_BreakLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*store, fence.Claim) (broken bool){
		"released, acquired": func(s *store, c fence.Claim) bool { s.release(c); s.acquire(); return false },
		"released":           func(s *store, c fence.Claim) bool { s.release(c); return false },
		"new token": func(s *store, c fence.Claim) bool {
			_, err := s.Advance(s.Context(), c, c.Token)
			require.NoError(s, err)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			c := s.acquire()
			var broken bool
			calls := 0
			rdb := client(t, testenv.Redis(t).URL())
			rdb.AddHook(before(func() {
				if calls++; calls == 2 { // the script is loaded with the first look
					broken = change(s, c)
				}
			}))
			hooked := newStoreOn(t, rdb, s.resource)
			_, _ = hooked.Inspect(t.Context(), "none")
			calls = 0
			_, err := hooked.Break(t.Context(), s.request(uuid.New()), fence.Fingerprint(c.Holder))
			if broken {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, driver.ErrLost)
			}
		})
	}
}

func TestL23_WhoStandsInLineStaysThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(2)
	s.release(c)
	r := s.request(uuid.New())
	g, err := s.Break(t.Context(), r, "") // ws[0] loses its turn
	require.NoError(t, err)
	assert.Equal(t, 0, ws[0].queued(0).Ahead)
	assert.Equal(t, 1, ws[1].queued(0).Ahead)
	s.release(fence.Claim{Resource: s.resource, Token: g.Token, Holder: r.Holder})
	assert.Greater(t, ws[0].granted(0).Token, g.Token)
}
