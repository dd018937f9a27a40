//go:build unix

package testenv

import (
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RedisServer is a Redis (or Valkey) server, or the one that RINGFENCE_TEST_REDIS names.
type RedisServer struct{ *Server }

// Redis returns the server that all tests of this binary share: started on first use, stopped by
// [Main]. Keep to [RedisServer.Prefix] in it. With RINGFENCE_TEST_REDIS=redis://... that server is
// used instead. Under -short the test is skipped.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	skipShort(tb, "Redis")
	if external := os.Getenv("RINGFENCE_TEST_REDIS"); external != "" {
		return &RedisServer{externalServer(tb, "Redis", "RINGFENCE_TEST_REDIS", external, "6379")}
	}
	d, err := current.redis.get(func() (*daemon, error) { return startRedis(nil) })
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return newRedisServer(tb, d, false)
}

// NewRedis starts a server for this test alone, to be paused, killed and restarted; the test's end
// stops it. args are added to the command line. By default nothing is written to disk; with
// "--appendonly", "yes", "--appendfsync", "always" a killed and restarted server still has its data.
// Under -short the test is skipped.
func NewRedis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	skipShort(tb, "Redis")
	d, err := startRedis(args)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	discardAtEnd(tb, d)
	return newRedisServer(tb, d, true)
}

func newRedisServer(tb testing.TB, d *daemon, private bool) *RedisServer {
	return &RedisServer{&Server{
		tb: tb, name: "Redis", url: "redis://" + d.addr() + "/0", addr: d.addr(), daemon: d, private: private,
	}}
}

// Prefix returns a fresh prefix for the keys and resources of this test, such as "t5d0c92ab/".
func (*RedisServer) Prefix(testing.TB) string { return freshName("t") + "/" }

func startRedis(args []string) (*daemon, error) {
	path, err := redisServer.find()
	if err != nil {
		return nil, err
	}
	return startRedisKind(redisKind{path: path, args: args}, "")
}

// startRedisKind starts a server in a folder of its own. conf is the content of its configuration file, if
// it is to have one.
func startRedisKind(k kind, conf string) (*daemon, error) {
	dir, reaper, err := current.newDir(strings.ToLower(k.name()))
	if err != nil {
		return nil, err
	}
	if conf != "" {
		if err := os.WriteFile(filepath.Join(dir, redisConf), []byte(conf), 0o600); err != nil {
			return nil, err
		}
	}
	return startDaemon(k, dir, reaper)
}

// redisConf is the file that a server reads at its start, if it is there, and rewrites when it is told to be
// somebody's replica; what its command line says takes precedence.
const redisConf = "redis.conf"

type redisKind struct {
	path string
	args []string
}

func (redisKind) name() string           { return "Redis" }
func (redisKind) polite() syscall.Signal { return syscall.SIGTERM }
func (redisKind) freePort() (int, error) { return freePort() }
func (redisKind) clean(string)           {}

func (k redisKind) command(dir string, port int) *exec.Cmd {
	var args []string
	if _, err := os.Stat(filepath.Join(dir, redisConf)); err == nil {
		args = append(args, redisConf)
	}
	args = append(args,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	)
	cmd := exec.Command(k.path, append(args, k.args...)...)
	cmd.Dir = dir
	return cmd
}

func (redisKind) ready(_ string, port, pid int) error {
	info, err := infoOf(port, pid)
	if respErr := respError(""); errors.As(err, &respErr) && strings.HasPrefix(string(respErr), "NOAUTH") {
		return nil // it was told to want a password; so it serves
	}
	if err != nil {
		return err
	}
	if infoField(info, "loading") != "0" {
		return errNotYet
	}
	return nil
}

// infoOf asks the server about itself, and who it is: another one may have taken the port.
func infoOf(port, pid int) (string, error) {
	info, err := askText(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "INFO")
	if err == nil && infoField(info, "process_id") != strconv.Itoa(pid) {
		err = errNotYet
	}
	return info, err
}

// externalServer is a server that we do not manage. It must be there.
func externalServer(tb testing.TB, name, variable, address, port string) *Server {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		tb.Fatalf("testenv: %s does not hold a URL with a host, such as %s://127.0.0.1:%s/", variable, strings.ToLower(name), port)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		tb.Fatalf("testenv: the server that %s names: %v", variable, err)
	}
	_ = conn.Close()
	return &Server{tb: tb, name: name, url: address, addr: addr}
}
