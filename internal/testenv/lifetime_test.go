//go:build unix

package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests run this test binary once more, to see what is left when it has ended.

const roleVariable = "RINGFENCE_TESTENV_ROLE"

// TestRole is what the other binary runs; here it does nothing.
func TestRole(t *testing.T) {
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	addrs := []string{Redis(t).Addr()}
	if role == "all" || role == "busy" {
		// A private server as well, paused with a connection open.
		shared, paused := Postgres(t), NewPostgres(t)
		pgConnect(t, paused.URL())
		paused.Pause()
		shared.Schema(t)
		if role == "busy" { // a session that does not look whether its server still lives
			pgConnect(t, shared.URL()).ask("DO $$ BEGIN LOOP END LOOP; END $$")
		}
		addrs = append(addrs, shared.Addr(), paused.Addr(), NewRedis(t).Addr())
	}
	if role == "groups" { // with members in every state
		s, c := NewSentinel(t), NewCluster(t)
		s.Sentinels()[0].Pause()
		s.Replica().Pause()
		c.Node(2).Pause()
		addrs = append(append(append(addrs, s.Addrs()...), c.Addrs()...), s.Primary().Addr(), s.Replica().Addr())
	}
	fmt.Println("ROLE", current.root, strings.Join(addrs, " "))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until told
	switch role {
	case "end", "all", "busy", "groups":
	case "fail":
		t.Error("failed as told")
	case "leak":
		go func() { select {} }()
	case "panic":
		panic("panicked as told")
	case "exit":
		os.Exit(3)
	default:
		t.Errorf("no such role: %q", role)
	}
}

// other is another test binary with its servers up.
type other struct {
	cmd   *exec.Cmd
	out   bytes.Buffer // its standard output, once read is closed
	err   bytes.Buffer // its error output, once it has ended
	peers []*peer      // a connection to each of its servers
	addrs []string
	root  string
	all   []int // its processes but the reaper: servers and their children
	tell  func()
	read  chan struct{}
}

func startOther(t *testing.T, role string) *other {
	t.Helper()
	skipShort(t, "Redis and PostgreSQL")
	self, err := os.Executable()
	require.NoError(t, err)
	o := &other{cmd: exec.Command(self, "-test.run=^TestRole$", "-test.count=1"), read: make(chan struct{})}
	o.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	o.cmd.Stderr = &o.err
	in, err := o.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := o.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, o.cmd.Start())
	t.Cleanup(func() { _ = o.cmd.Process.Kill() })
	o.tell = func() { _ = in.Close() }

	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ROLE ") {
		t.Log(lines.Text())
	}
	require.NoError(t, lines.Err())
	words := strings.Fields(lines.Text())
	require.Greater(t, len(words), 2, "the other binary did not get its servers up")
	o.root, o.addrs = words[1], words[2:]
	for _, addr := range o.addrs {
		o.peers = append(o.peers, dial(t, addr))
	}
	require.DirExists(t, o.root)
	o.all = descendants(t, o.cmd.Process.Pid)
	go func() {
		defer close(o.read)
		for lines.Scan() {
			o.out.WriteString(lines.Text() + "\n")
		}
	}()
	return o
}

// descendants are the children of a process, and theirs.
func descendants(tb testing.TB, pid int) []int {
	tb.Helper()
	all, err := processes()
	require.NoError(tb, err)
	family := []int{pid}
	for i := 0; i < len(family); i++ {
		for _, s := range all {
			if s.parent == family[i] && !s.dead {
				family = append(family, s.pid)
			}
		}
	}
	return family[1:]
}

// ended waits for its end and returns its exit code and what it printed.
func (o *other) ended(t *testing.T) (code int, out string) {
	t.Helper()
	limit := time.AfterFunc(60*time.Second, func() { _ = o.cmd.Process.Kill() })
	defer limit.Stop()
	<-o.read
	_ = o.cmd.Wait()
	return o.cmd.ProcessState.ExitCode(), o.out.String() + o.err.String()
}

// requireGone waits until nothing is left of it: servers, their children, folders.
func (o *other) requireGone(t *testing.T) {
	t.Helper()
	for _, p := range o.peers {
		p.hearsTheEnd()
	}
	require.NoError(t, await(o.all, startLimit))
	require.Eventually(t, func() bool {
		_, err := os.Stat(o.root)
		return os.IsNotExist(err)
	}, patience, 10*time.Millisecond, "the folder %s is left", o.root)
}

// hearsTheEnd reads until the connection ends in whatever way.
func (p *peer) hearsTheEnd() {
	p.tb.Helper()
	require.NoError(p.tb, p.conn.SetReadDeadline(time.Now().Add(patience)))
	for {
		_, err := p.conn.Read(make([]byte, 1024))
		require.NotErrorIs(p.tb, err, os.ErrDeadlineExceeded, "%v is still open", p.conn.RemoteAddr())
		if err != nil {
			return
		}
	}
}

func TestNothingOutlivesTheBinary(t *testing.T) {
	for _, c := range []struct {
		role string
		code int
		says string
	}{
		{"end", 0, "PASS"},
		{"all", 0, "PASS"},
		{"groups", 0, "PASS"},
		{"fail", 1, "failed as told"},
		{"leak", 1, "left goroutines behind"},
		{"panic", 2, "panicked as told"},
		{"exit", 3, ""},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			o := startOther(t, c.role)
			o.tell()
			code, out := o.ended(t)
			assert.Equal(t, c.code, code, out)
			assert.Contains(t, out, c.says)
			o.requireGone(t)
		})
	}
	for role, least := range map[string]int{"busy": 10, "groups": 8} {
		t.Run("killed when "+role, func(t *testing.T) {
			t.Parallel()
			o := startOther(t, role)
			require.Greater(t, len(o.all), least)
			require.NoError(t, o.cmd.Process.Signal(syscall.SIGKILL))
			o.ended(t)
			o.requireGone(t)
		})
	}
}

func TestTwoBinariesAtOnce(t *testing.T) {
	t.Parallel()
	a, b := startOther(t, "all"), startOther(t, "all")
	for _, addr := range a.addrs {
		assert.NotContains(t, b.addrs, addr)
	}
	assert.NotEqual(t, a.root, b.root)
	b.tell()
	code, out := b.ended(t)
	require.Zero(t, code, out)
	b.requireGone(t)
	conn := dial(t, a.addrs[0])
	conn.says("PING\r\n")
	conn.hears("+PONG\r\n")
	a.tell()
	code, out = a.ended(t)
	require.Zero(t, code, out)
	a.requireGone(t)
}
