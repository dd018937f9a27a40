//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const (
	sentinelCount  = 3
	sentinelQuorum = 2
)

// Sentinel is a Redis primary, its replica, and three sentinels, two of which must agree, that make the
// replica the primary when the primary has been silent for a second. It belongs to one test: call its
// methods from the test's goroutine.
type Sentinel struct {
	group
	master    string
	servers   []*RedisServer
	sentinels []*Server
	primary   int // which of servers was the primary when last seen
}

// NewSentinel starts such a group for this test alone; the test's end stops it. When it returns, the
// replica is in sync, and each sentinel knows the primary, the replica and the others. args are added to
// the command lines of primary and replica (not to the sentinels'), as in [NewRedis]: by default neither
// writes data to disk. Under -short the test is skipped.
func NewSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	skipShort(tb, "Redis")
	s := &Sentinel{group: group{tb: tb, name: "Sentinel"}, master: freshName("m")}
	path, err := redisServer.find()
	s.must(err)
	s.addServer(path, args, "# The sentinels will fill it.\n")
	s.addServer(path, args, fmt.Sprintf("replicaof %s\n", spaced(s.Primary().Addr())))
	// A sentinel asks the primary for its replicas when it starts, and then, if it can't be hastened, not
	// for ten seconds.
	s.await("replication", startLimit, func() error { return inSync(s.Primary().Addr(), s.Replica().Addr()) })
	for _, d := range s.add(sentinelCount, func(i int) (*daemon, error) {
		return startRedisKind(sentinelKind{path}, s.conf(i))
	}) {
		server := &Server{tb: tb, name: "Sentinel", url: "redis://" + d.addr(), addr: d.addr(), daemon: d, private: true}
		s.sentinels = append(s.sentinels, server)
		s.members = append(s.members, server)
		hasten(server)
	}
	s.AwaitSync()
	return s
}

// conf is the configuration of sentinel i.
func (s *Sentinel) conf(i int) string {
	downAfter := 1000
	if i == sentinelCount-1 {
		// If all three noticed at once, each would vote for itself now and then, and they would try again
		// only after twice the failover-timeout. The last one finds the others' election going on.
		downAfter = 2000
	}
	return fmt.Sprintf(`
sentinel monitor %[1]s %[2]s %[3]d
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 3000
`, s.master, spaced(s.Primary().Addr()), sentinelQuorum, downAfter)
}

// addServer starts a primary or replica. Who it is replica of stands in a file, so that it outlasts a
// restart when the sentinels have changed it.
func (s *Sentinel) addServer(path string, args []string, conf string) {
	s.tb.Helper()
	args = append([]string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}, args...)
	k := redisKind{path: path, args: args}
	for _, d := range s.add(1, func(int) (*daemon, error) { return startRedisKind(k, conf) }) {
		server := newRedisServer(s.tb, d, true)
		s.servers = append(s.servers, server)
		s.members = append(s.members, server.Server)
	}
}

// hasten has a sentinel tell the others more often what it knows, so that they meet sooner and a primary
// that comes back is soon told that it is a replica; and not sit out half a minute after it was paused
// or starved. Redis 7 and later can; older ones take their time.
func hasten(sentinel *Server) {
	_, _ = ask(sentinel.addr, "SENTINEL", "DEBUG", "publish-period", "500", "info-period", "500", "tilt-period", "5000")
}

// Addrs are the sentinels' addresses.
func (s *Sentinel) Addrs() []string { return addrs(s.sentinels) }

// MasterName is what the sentinels call the primary. It is another one for each group.
func (s *Sentinel) MasterName() string { return s.master }

// Primary is the server that was the primary when [NewSentinel] returned.
func (s *Sentinel) Primary() *RedisServer { return s.servers[0] }

// Replica is the server that was the replica when [NewSentinel] returned.
func (s *Sentinel) Replica() *RedisServer { return s.servers[1] }

// Sentinels are the three sentinels, to be paused or killed.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// KillPrimary kills the present primary, whichever server that is.
func (s *Sentinel) KillPrimary() {
	s.tb.Helper()
	for i := range s.servers {
		if s.leads(i) == nil {
			s.primary = i
		}
	}
	s.servers[s.primary].Kill()
}

// AwaitFailover waits until the other server has become the primary, in its own words and in those of two
// sentinels, and returns it. It takes about three seconds after the primary was killed or paused. After
// a failover the sentinels start no other one for six seconds.
func (s *Sentinel) AwaitFailover() *RedisServer {
	s.tb.Helper()
	next := 1 - s.primary
	s.await("failover", groupLimit, func() error { return s.leads(next) })
	s.primary = next
	return s.servers[next]
}

// AwaitSync waits until the group is whole (again): one server is the primary, the other its replica and
// in sync, and each sentinel sees both and all the others. A killed primary that is restarted after the
// failover gets there in about five seconds.
func (s *Sentinel) AwaitSync() {
	s.tb.Helper()
	s.await("to be in sync", groupLimit, func() error {
		errs := make([]error, len(s.servers))
		for i := range s.servers {
			if errs[i] = s.leads(i); errs[i] == nil {
				return s.whole(i)
			}
		}
		return errors.Join(errs...)
	})
}

// spaced is a host:port as Redis's configuration has it.
func spaced(addr string) string { return strings.Replace(addr, ":", " ", 1) }

type sentinelKind struct{ path string }

func (sentinelKind) name() string           { return "Sentinel" }
func (sentinelKind) polite() syscall.Signal { return syscall.SIGTERM }
func (sentinelKind) freePort() (int, error) { return freePort() }
func (sentinelKind) clean(string)           {}

func (k sentinelKind) command(dir string, port int) *exec.Cmd {
	cmd := exec.Command(k.path, redisConf,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no", "--sentinel")
	cmd.Dir = dir
	return cmd
}

func (sentinelKind) ready(_ string, port, pid int) error {
	_, err := infoOf(port, pid)
	return err
}
