package redislock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// calls is how many commands the server has run, those inside scripts counted too, without INFO.
func (s *store) calls() (n int) {
	s.Helper()
	info, err := s.rdb.Info(s.Context(), "commandstats").Result()
	require.NoError(s, err)
	for line := range strings.Lines(info) {
		name, rest, isStat := strings.Cut(line, ":calls=")
		if !isStat || name == "cmdstat_info" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n += atoi(s.T, calls)
	}
	return n
}

// TestBudget counts what an acquisition costs the server: DESIGN 9 allows 20 with 16 who compete.
func TestBudget(t *testing.T) {
	t.Parallel()
	_, s := privateStore(t)
	s.release(s.acquire()) // loads the scripts
	cost := func(f func()) int {
		before := s.calls()
		f()
		return s.calls() - before
	}
	c := s.acquire()
	assert.LessOrEqual(t, cost(func() { s.release(c) }), 4, "release, nobody waits")
	assert.LessOrEqual(t, cost(func() { c = s.acquire() }), 7, "acquire, nobody waits")
	assert.LessOrEqual(t, cost(func() { _, _ = s.Acquire(t.Context(), s.request(uuid.New())) }), 4, "refused")

	const competing = 16
	ws := s.waiters(competing - 1)
	const rounds = 200
	total := cost(func() {
		for range rounds {
			s.release(c)
			again := s.waiter()
			again.queued(0)
			c = ws[0].granted(0)
			ws = append(ws[1:], again)
		}
	})
	assert.LessOrEqual(t, float64(total)/rounds, 20.0)
	t.Logf("%.2f commands for each acquisition", float64(total)/rounds)

	w := ws[len(ws)-1]
	assert.LessOrEqual(t, cost(func() { w.queued(0) }), 14, "a poll")
	w.age(time.Minute, time.Second)
	assert.LessOrEqual(t, cost(func() { w.queued(0) }), 16, "a poll, with others who have waited for long")
}
