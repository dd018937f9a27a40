package redislock_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	holder := uuid.New()
	for _, row := range []struct {
		value string
		want  driver.Info
	}{
		{holder.String() + " 17 web 3:  eu 17", driver.Info{Held: true, Token: 17, Holder: fence.Fingerprint(holder), Label: "web 3:  eu 17"}},
		{holder.String() + " 9223372036854775807 ", driver.Info{Held: true, Token: 9223372036854775807, Holder: fence.Fingerprint(holder)}},
		{"released 17 a label", driver.Info{Held: true, Token: 17, Holder: "none", Label: "a label"}},
		{"turn " + holder.String(), driver.Info{Holder: "none", Waiters: 1}},
		// What a program of the plain recipe may store.
		{"", driver.Info{Held: true, Holder: "e3b0c442"}},
		{holder.String(), driver.Info{Held: true}},
		{holder.String() + " 17", driver.Info{Held: true}},
		{holder.String() + " 0 x", driver.Info{Held: true}},
		{holder.String() + " 9223372036854775808 x", driver.Info{Held: true}},
		{"{" + holder.String() + "} 17 x", driver.Info{Held: true}},
		{uuid.Nil.String() + " 17 x", driver.Info{Held: true}},
		{"turn", driver.Info{Held: true}},
		{"turn x", driver.Info{Held: true}},
		{"released", driver.Info{Held: true}},
		{"released x y", driver.Info{Held: true}},
		{"\x00\xff\n", driver.Info{Held: true}},
	} {
		s := newStore(t)
		for _, ttl := range []time.Duration{0, time.Minute} {
			s.set(s.leaseKey(), row.value, ttl)
			info, err := s.Inspect(t.Context(), s.resource)
			require.NoError(t, err)
			if ttl > 0 && row.want.Held {
				assert.Greater(t, info.Remaining, 50*time.Second)
				assert.LessOrEqual(t, info.Remaining, time.Minute)
				info.Remaining = 0
			}
			if row.want.Holder == "" {
				assert.Regexp(t, "^[0-9a-f]{8}$", info.Holder)
				row.want.Holder = info.Holder
			}
			assert.Equal(t, row.want, info, "%q", row.value)
			assert.Equal(t, row.value, s.value())
		}
	}
}

func TestInspect_FreeAndWaiters(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	inspect := func() driver.Info {
		t.Helper()
		info, err := s.Inspect(t.Context(), s.resource)
		require.NoError(t, err)
		return info
	}
	assert.Equal(t, driver.Info{Holder: "none"}, inspect())
	c := s.acquire()
	s.waiters(3)
	assert.Equal(t, 3, inspect().Waiters)
	s.release(c)
	assert.Equal(t, driver.Info{Holder: "none", Waiters: 3}, inspect(), "one has the turn")
	s.awaitGone(s.leaseKey())
	assert.Equal(t, driver.Info{Holder: "none", Waiters: 2}, inspect())
}

// TestInspect_PlainValuesAreTellable has the fingerprint of a plain value be the value's.
func TestInspect_PlainValuesAreTellable(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	seen := map[string]bool{}
	for _, value := range []string{"a", "b", "", "a "} {
		s.set(s.leaseKey(), value, 0)
		info, err := s.Inspect(t.Context(), s.resource)
		require.NoError(t, err)
		assert.False(t, seen[info.Holder], "%q", value)
		seen[info.Holder] = true
	}
}
