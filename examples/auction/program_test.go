//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
)

// The tests run the program itself: this test binary is it when the variable is set. Its processors
// inherit the variable.
const asProgram = "RINGFENCE_AUCTION_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "program":
		main()
	case "program without SIGSTOP":
		canStop = false
		main()
	}
	testenv.Main(m)
}

const patience = 40 * time.Second

// program is a run of the program under test.
type program struct {
	t           *testing.T
	cmd         *exec.Cmd
	out, errOut *output
	allEnded    chan struct{} // the program and all its processors
	tmp         string
}

// prepare prepares a run, with a folder of its own for temporary files.
func prepare(t *testing.T, stdin io.Reader, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{t: t, cmd: exec.Command(self, args...), out: newOutput(), errOut: newOutput(), tmp: t.TempDir(), allEnded: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=program", "TMPDIR="+p.tmp,
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0") // it would sleep for a second in each process
	p.cmd.Stdin, p.cmd.Stdout = stdin, p.out
	return p
}

func (p *program) start() *program {
	p.t.Helper()
	// The processors inherit the standard error: it ends when the last of them does.
	read, write, err := os.Pipe()
	require.NoError(p.t, err)
	p.cmd.Stderr = write
	go func() {
		defer close(p.allEnded)
		_, _ = io.Copy(p.errOut, read) // ends with the last writer
		_ = read.Close()
	}()
	err = p.cmd.Start()
	require.NoError(p.t, errors.Join(err, write.Close()))
	p.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // an error: it has ended
	return p
}

func begin(t *testing.T, stdin string, args ...string) *program {
	t.Helper()
	return prepare(t, strings.NewReader(stdin), args...).start()
}

// end waits for the end of the program and all its processes, and requires the status.
func (p *program) end(status int) {
	p.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	err := p.cmd.Wait()
	select {
	case <-p.allEnded:
	case <-time.After(patience):
		require.FailNow(p.t, "a processor has outlived the program", "%s\n%s", p.out, p.errOut)
	}
	require.Equal(p.t, status, p.cmd.ProcessState.ExitCode(), "%v\n%s\n%s", err, p.out, p.errOut)
}

// leavesNothing requires that the program has removed its temporary files.
func (p *program) leavesNothing() {
	p.t.Helper()
	left, err := os.ReadDir(p.tmp)
	require.NoError(p.t, err)
	assert.Empty(p.t, left)
}

// processors are the processes of the processors, as the program names them.
func (p *program) processors() []int {
	p.t.Helper()
	p.out.await(p.t, "processes ")
	line := regexp.MustCompile(`processes .*`).FindString(p.out.String())
	var pids []int
	for _, found := range regexp.MustCompile(`P\d+ (\d+)`).FindAllStringSubmatch(line, -1) {
		pid, err := strconv.Atoi(found[1])
		require.NoError(p.t, err)
		pids = append(pids, pid)
	}
	return pids
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// runProgram runs the program to its end, after which nothing must be left.
func runProgram(t *testing.T, status int, stdin string, args ...string) *program {
	t.Helper()
	p := begin(t, stdin, args...)
	p.end(status)
	p.leavesNothing()
	return p
}

// output is what a program has written so far. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) now() (text string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.more
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}

// await returns once want has been written.
func (o *output) await(t *testing.T, want string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		text, more := o.now()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-more:
		case <-timer.C:
			require.FailNow(t, "not written", "%q in\n%s", want, text)
		}
	}
}
