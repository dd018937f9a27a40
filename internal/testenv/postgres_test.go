//go:build unix

package testenv

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pgSession is a connection to a PostgreSQL server, within a test.
type pgSession struct {
	*peer
	wire *wire
}

func pgConnect(tb testing.TB, address string) *pgSession {
	tb.Helper()
	w, err := dialWire(address, patience)
	require.NoError(tb, err)
	return &pgSession{newPeer(tb, w.Conn), w}
}

func (s *pgSession) ask(sql string) {
	s.tb.Helper()
	require.NoError(s.tb, s.wire.ask(sql))
}

func (s *pgSession) answer() string {
	s.tb.Helper()
	rows, err := s.wire.answer(patience)
	require.NoError(s.tb, err)
	return rows
}

func (s *pgSession) query(sql string) string {
	s.tb.Helper()
	s.ask(sql)
	return s.answer()
}

func TestPostgresIsSharedAndIsolatedBySchema(t *testing.T) {
	p, outer := Postgres(t), t
	assert.Equal(t, p.URL(), Postgres(t).URL())
	var left string
	t.Run("inner", func(t *testing.T) {
		urlA, a := p.Schema(t)
		urlB, b := p.Schema(t)
		left = a
		assert.Regexp(t, `^t[0-9a-f]{8}$`, a)
		assert.NotEqual(t, a, b)
		inA, inB := pgConnect(t, urlA), pgConnect(t, urlB)
		inA.query("CREATE TABLE x AS SELECT 1 AS n")
		inB.query("CREATE TABLE x AS SELECT 2 AS n")
		assert.Equal(t, "1", inA.query("SELECT n FROM x"))
		assert.Equal(t, "2", inB.query("SELECT n FROM x"))
		assert.Equal(t, a, inA.query("SHOW search_path"))
		// A transaction that the test forgets must not keep the schema from being dropped.
		forgotten := pgConnect(outer, urlA)
		forgotten.query("BEGIN; LOCK TABLE x")
	})
	assert.Empty(t, pgConnect(t, p.URL()).query("SELECT nspname FROM pg_namespace WHERE nspname = '"+left+"'"))
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	s := pgConnect(t, NewPostgres(t, "deadlock_timeout=123ms", "max_connections=20").URL())
	assert.Equal(t, "123ms", s.query("SHOW deadlock_timeout"))
	assert.Equal(t, "20", s.query("SHOW max_connections"))
	assert.Equal(t, "on", s.query("SHOW synchronous_commit"))
	assert.Equal(t, "200", pgConnect(t, Postgres(t).URL()).query("SHOW max_connections"))
}

func TestPostgresPauseAndResume(t *testing.T) {
	t.Parallel()
	p := NewPostgres(t)
	s := pgConnect(t, p.URL())
	require.Equal(t, "1", s.query("SELECT 1"))

	p.Pause()
	s.ask("SELECT 2")
	s.hearsNothing() // its backend has stopped as well
	p.Resume()
	assert.Equal(t, "2", s.answer())
	assert.Equal(t, "3", pgConnect(t, p.URL()).query("SELECT 3"))
}

func TestPostgresKillAndRestart(t *testing.T) {
	t.Parallel()
	p := NewPostgres(t)
	before := p.URL()
	s, open := pgConnect(t, p.URL()), pgConnect(t, p.URL())
	s.query("CREATE TABLE x AS SELECT 1 AS n")
	open.query("BEGIN; INSERT INTO x VALUES (2)")
	server := p.daemon.process.pid

	p.Kill()
	s.hearsEnd()
	open.hearsEnd()
	assert.Empty(t, aliveOf(t, server))
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)

	p.Restart()
	require.Equal(t, before, p.URL())
	s = pgConnect(t, p.URL())
	assert.Equal(t, "1", s.query("SELECT n FROM x"), "what was committed, and no more")

	p.Pause()
	p.Kill()
	s.hearsEnd()
	p.Restart()
	s = pgConnect(t, p.URL())
	s.query("INSERT INTO x VALUES (3)")
	p.Pause()
	p.Stop()
	s.hearsTheEnd()
	p.Restart()
	s = pgConnect(t, p.URL())
	assert.Equal(t, "1;3", s.query("SELECT n FROM x"))
	p.Kill()
}

// aliveOf returns the server and its children, those that have not ended.
func aliveOf(tb testing.TB, server int) []status {
	tb.Helper()
	all, err := processes()
	require.NoError(tb, err)
	var alive []status
	for _, s := range all {
		if !s.dead && (s.pid == server || s.parent == server) {
			alive = append(alive, s)
		}
	}
	return alive
}

func TestPostgresLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	skipShort(t, "PostgreSQL")
	exists := func(id int) bool {
		_, err := unix.SysvShmCtl(id, unix.IPC_STAT, new(unix.SysvShmDesc))
		return err == nil
	}
	for name, end := range map[string]func(*PostgresServer){
		"running": func(*PostgresServer) {},
		"paused":  func(p *PostgresServer) { p.Pause() },
		"killed":  func(p *PostgresServer) { p.Kill() },
	} {
		var id int
		require.Empty(t, failureOf(t, func(tb testing.TB) {
			p := NewPostgres(tb)
			var err error
			id, err = sharedMemory(p.daemon.dir)
			require.NoError(tb, err)
			require.True(tb, exists(id))
			end(p)
		}))
		assert.False(t, exists(id), name)
	}
}

func TestPostgresLostCommit(t *testing.T) {
	t.Parallel()
	p := Postgres(t)
	address, _ := p.Schema(t)
	proxy := NewProxy(t, p.Addr())
	s := pgConnect(t, address)
	s.query("CREATE TABLE x (n int)")
	c := pgConnect(t, proxy.URL(address))
	c.query("BEGIN; INSERT INTO x VALUES (1)")
	lost := proxy.LoseReply("COMMIT")
	c.ask("COMMIT")
	c.hearsEnd()
	requireLost(t, lost)
	assert.Equal(t, "1", s.query("SELECT count(*) FROM x"))
}
