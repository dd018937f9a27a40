//go:build unix

package testenv

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answerOf asks one question; the answer, or what the server has against it, as it is.
func answerOf(tb testing.TB, addr string, args ...string) any {
	tb.Helper()
	c, err := dialResp(addr)
	require.NoError(tb, err)
	defer func() { _ = c.Close() }()
	answer, err := c.exchange(args)
	if refused, isRefused := err.(respError); isRefused {
		return refused
	}
	require.NoError(tb, err)
	return answer
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t, "--maxmemory-policy", "allkeys-lru")
	first, second := s.Primary(), s.Replica()
	for _, r := range []*RedisServer{first, second} {
		assert.Equal(t, []any{"maxmemory-policy", "allkeys-lru"}, answerOf(t, r.Addr(), "CONFIG", "GET", "maxmemory-policy"))
	}
	assert.Equal(t, "redis://"+first.Addr()+"/0", first.URL())
	require.Len(t, s.Addrs(), sentinelCount)
	requireNames(t, s, first)

	conn, err := dialResp(first.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, step := range []struct {
		answer   any
		question []string
	}{
		{"OK", []string{"SET", "seat", "A12"}},
		{int64(1), []string{"WAIT", "1", "10000"}},
	} {
		answer, err := conn.ask(step.question...)
		require.NoError(t, err)
		require.Equal(t, step.answer, answer)
	}
	assert.Contains(t, answerOf(t, second.Addr(), "SET", "seat", "B1"), "READONLY")

	// A silent primary is replaced, and told so when it goes on.
	first.Pause()
	require.Same(t, second, s.AwaitFailover())
	requireNames(t, s, second)
	assert.Equal(t, "A12", answerOf(t, second.Addr(), "GET", "seat"))
	assert.Equal(t, "OK", answerOf(t, second.Addr(), "SET", "seat", "B1"))
	first.Resume()
	s.AwaitSync()
	requireNames(t, s, second)
	assert.Equal(t, "slave", texts(answerOf(t, first.Addr(), "ROLE"))[0])
	assert.Equal(t, "B1", answerOf(t, first.Addr(), "GET", "seat"))

	// And back again. A killed one comes back as a primary with nothing, and becomes the replica.
	s.KillPrimary()
	_, err = net.Dial("tcp", second.Addr())
	require.Error(t, err)
	require.Same(t, first, s.AwaitFailover())
	requireNames(t, s, first)
	second.Restart()
	s.AwaitSync()
	assert.Equal(t, "slave", texts(answerOf(t, second.Addr(), "ROLE"))[0])
	assert.Equal(t, "B1", answerOf(t, second.Addr(), "GET", "seat"))
}

// requireNames checks that each sentinel gives that server's address to clients.
func requireNames(tb testing.TB, s *Sentinel, primary *RedisServer) {
	tb.Helper()
	votes := 0
	for _, addr := range s.Addrs() {
		named := texts(answerOf(tb, addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName()))
		if net.JoinHostPort(named[0], named[1]) == primary.Addr() {
			votes++
		}
	}
	require.GreaterOrEqual(tb, votes, sentinelQuorum)
}

func TestSentinelsGoDownAndComeBack(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t)
	s.Sentinels()[0].Kill()
	s.Sentinels()[1].Pause()
	err := s.leads(0)
	require.ErrorContains(t, err, "1 of 3 sentinels name "+s.Primary().Addr(), "one is not enough")
	s.Sentinels()[1].Resume()
	require.NoError(t, s.leads(0))
	s.Sentinels()[0].Restart()
	s.AwaitSync()
	require.NoError(t, s.leads(0))
	require.ErrorContains(t, s.leads(1), "0 of 3 sentinels name")
}
