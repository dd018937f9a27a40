//go:build unix

package testenv

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingProgramSaysHowToInstallIt(t *testing.T) {
	t.Parallel()
	_, err := program{names: []string{"no-such-server"}, places: []string{"/no/such/*"}, apt: "no-such-package"}.find()
	require.ErrorContains(t, err, "no-such-server is not installed. Install it: ")
	assert.Equal(t, "apt-get install -y redis-server", redisServer.install("linux"))
	assert.Equal(t, "brew install redis", redisServer.install("darwin"))
	assert.Equal(t, "apt-get install -y postgresql", postgresServer.install("linux"))
	assert.Equal(t, "brew install postgresql", postgresServer.install("darwin"))
}

func TestNewestProgramIsFoundOutsidePath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, version := range []string{"9", "15", "16"} {
		dir := filepath.Join(root, "postgresql", version, "bin")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "no-such-server"), []byte("#!/bin/sh\n"), 0o755))
	}
	path, err := program{names: []string{"no-such-server"}, places: []string{filepath.Join(root, "postgresql/*/bin")}}.find()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "postgresql/16/bin/no-such-server"), path)
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	skipShort(t, "Redis and PostgreSQL")
	message := failureOf(t, func(tb testing.TB) { NewRedis(tb, "--no-such-option", "1") })
	assert.Contains(t, message, "ended while starting (exit status 1); its log ends:")
	assert.Contains(t, message, "no-such-option")
	message = failureOf(t, func(tb testing.TB) { NewPostgres(tb, "no_such_setting=1") })
	assert.Contains(t, message, "ended while starting (exit status 1); its log ends:")
	assert.Contains(t, message, "no_such_setting")
}

// never is a server that runs and is never ready.
type never struct{ redisKind }

func (never) ready(string, int, int) error { return errNotYet }

func (never) command(string, int) *exec.Cmd {
	return exec.Command("/bin/sh", "-c", "echo well; exec sleep 1000")
}

func TestStartIsBounded(t *testing.T) {
	t.Parallel()
	dir, reaper, err := current.newDir("never")
	require.NoError(t, err)
	d := &daemon{kind: never{}, dir: dir, reaper: reaper}
	again, err := d.launch(time.Now().Add(silence))
	assert.False(t, again)
	require.ErrorContains(t, err, "not ready after")
	assert.ErrorContains(t, err, "well")
	assert.False(t, d.process.running())
}

// taken wants a port that somebody else got first, twice.
type taken struct {
	redisKind
	port  int
	tries *int
}

func (k taken) command(dir string, port int) *exec.Cmd {
	if *k.tries++; *k.tries <= 2 {
		port = k.port
	}
	return k.redisKind.command(dir, port)
}

func TestStartTriesAnotherPortWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	skipShort(t, "Redis")
	path, err := redisServer.find()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(Redis(t).Addr())
	require.NoError(t, err)
	k := taken{redisKind: redisKind{path: path}, tries: new(int)}
	k.port, err = strconv.Atoi(port)
	require.NoError(t, err)
	dir, reaper, err := current.newDir("taken")
	require.NoError(t, err)
	d, err := startDaemon(k, dir, reaper)
	require.NoError(t, err)
	discardAtEnd(t, d)
	assert.Equal(t, 3, *k.tries)
	assert.NoError(t, k.ready(dir, d.port, d.process.pid))
	assert.ErrorIs(t, k.ready(dir, k.port, d.process.pid), errNotYet, "somebody else's server is not ours")
	conn := dial(t, d.addr())
	conn.says("PING\r\n")
	conn.hears("+PONG\r\n")
}

func TestServerThatDiedByItselfIsReported(t *testing.T) {
	t.Parallel()
	r := NewRedis(t)
	conn := dial(t, r.Addr())
	conn.says("SHUTDOWN NOSAVE\r\n")
	conn.hearsEnd()
	<-r.daemon.process.exited
	assert.ErrorContains(t, r.daemon.check(), "is not running (exit status 0); its log ends:")
	assert.Contains(t, failureOf(t, func(tb testing.TB) {
		mine := *r.Server
		mine.tb = tb
		mine.Pause()
	}), "is not running")
	r.Restart()
}

func TestFreezeCatchesTheWholeFamily(t *testing.T) {
	t.Parallel()
	dir, reaper, err := current.newDir("family")
	require.NoError(t, err)
	cmd := exec.Command("/bin/sh", "-c", "for i in 1 2 3; do (while :; do sleep 0.01; done) & done; wait")
	p, err := startProcess(cmd, filepath.Join(dir, "log"), reaper)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(aliveOf(t, p.pid)) > 3 }, patience, time.Millisecond)
	members, err := freeze(p.pid, patience)
	require.NoError(t, err)
	assert.Greater(t, len(members), 3)
	assert.Equal(t, p.pid, members[0])
	for _, s := range aliveOf(t, p.pid) {
		assert.Contains(t, members, s.pid)
		assert.True(t, s.stopped)
	}
	signalAll(members, syscall.SIGKILL)
	<-p.exited
	require.NoError(t, await(members, patience))
}

func TestReachable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	require.NoError(t, os.Chmod(dir, 0o700))
	assert.True(t, reachable("/"))
	assert.False(t, reachable(inner))
	assert.False(t, reachable(filepath.Join(dir, "absent")))
}
