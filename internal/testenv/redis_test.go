//go:build unix

package testenv

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRedisIsSharedAndIsolatedByPrefix(t *testing.T) {
	a, b := Redis(t), Redis(t)
	assert.Equal(t, "redis://"+a.Addr()+"/0", a.URL())
	assert.Equal(t, a.URL(), b.URL())
	assert.Regexp(t, `^t[0-9a-f]{8}/$`, a.Prefix(t))
	assert.NotEqual(t, a.Prefix(t), a.Prefix(t))

	conn := dial(t, a.Addr())
	conn.says("PING\r\n")
	conn.hears("+PONG\r\n")
}

func TestRedisPauseAndResume(t *testing.T) {
	t.Parallel()
	r := NewRedis(t)
	conn := dial(t, r.Addr())
	conn.says("PING\r\n")
	conn.hears("+PONG\r\n")

	r.Pause()
	r.Pause()
	conn.says("PING\r\n")
	conn.hearsNothing()
	during := dial(t, r.Addr()) // the kernel accepts it
	during.says("PING\r\n")
	during.hearsNothing()
	r.Resume()
	r.Resume()
	conn.hears("+PONG\r\n")
	during.hears("+PONG\r\n")
}

func TestRedisKillAndRestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		kept string
	}{
		{"without data", nil, "$-1\r\n"},
		{"with data", []string{"--appendonly", "yes", "--appendfsync", "always"}, "$3\r\nbar\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := NewRedis(t, c.args...)
			url := r.URL()
			conn := dial(t, r.Addr())
			conn.says("SET foo bar\r\n")
			conn.hears("+OK\r\n")

			r.Kill()
			conn.hearsEnd()
			_, err := net.Dial("tcp", r.Addr())
			require.Error(t, err)
			r.Restart()
			assert.Equal(t, url, r.URL())
			conn = dial(t, r.Addr())
			conn.says("GET foo\r\n")
			conn.hears(c.kept)

			conn.says("SET foo bar\r\n")
			conn.hears("+OK\r\n")
			r.Pause()
			r.Stop() // a paused one too
			conn.hearsEnd()
			r.Restart()
			r.Restart() // a running one too
			conn = dial(t, r.Addr())
			conn.says("GET foo\r\n")
			conn.hears(c.kept)
			r.Pause()
			r.Kill()
			conn.hearsEnd()
		})
	}
}

func TestRedisArguments(t *testing.T) {
	t.Parallel()
	r := NewRedis(t, "--requirepass", "secret", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	assert.Contains(t, answerOf(t, r.Addr(), "PING"), "NOAUTH")
	assert.Contains(t, answerOf(t, r.Addr(), "AUTH", "wrong"), "WRONGPASS")
	conn, err := dialResp(r.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.ask("AUTH", "secret")
	require.NoError(t, err)
	for setting, want := range map[string]string{"maxmemory": "67108864", "maxmemory-policy": "allkeys-lru"} {
		answer, err := conn.ask("CONFIG", "GET", setting)
		require.NoError(t, err)
		assert.Equal(t, []any{setting, want}, answer)
	}
	r.Restart()
	assert.Contains(t, answerOf(t, r.Addr(), "PING"), "NOAUTH")
}

func TestSharedServersCannotBePaused(t *testing.T) {
	for name, s := range map[string]*Server{"NewRedis": Redis(t).Server, "NewPostgres": Postgres(t).Server} {
		for _, action := range []func(*Server){
			(*Server).Pause, (*Server).Resume, (*Server).Kill, (*Server).Stop, (*Server).Restart,
		} {
			message := failureOf(t, func(tb testing.TB) {
				mine := *s
				mine.tb = tb
				action(&mine)
			})
			assert.Contains(t, message, name)
		}
	}
}

func TestExternalServers(t *testing.T) {
	t.Setenv("RINGFENCE_TEST_REDIS", Redis(t).URL())
	t.Setenv("RINGFENCE_TEST_POSTGRES", Postgres(t).URL()+"&pool_max_conns=3&application_name=a%20b")

	r := Redis(t)
	conn := dial(t, r.Addr())
	conn.says("PING\r\n")
	conn.hears("+PONG\r\n")
	assert.Contains(t, failureOf(t, func(tb testing.TB) { Redis(tb).Kill() }), "which other tests use")
	assert.Contains(t, failureOf(t, func(tb testing.TB) { Postgres(tb).Kill() }), "which other tests use")
	url, schema := Postgres(t).Schema(t)
	assert.Contains(t, url, schema)
	assert.Contains(t, url, "pool_max_conns=3")

	for _, c := range []struct{ value, message string }{
		{"not a url:secret", "does not hold a URL with a host"},
		{"redis://:secret@127.0.0.1:1/0", "the server that RINGFENCE_TEST_REDIS names: dial tcp 127.0.0.1:1"},
	} {
		t.Setenv("RINGFENCE_TEST_REDIS", c.value)
		message := failureOf(t, func(tb testing.TB) { Redis(tb) })
		assert.Contains(t, message, c.message)
		assert.NotContains(t, message, "secret")
	}
}
