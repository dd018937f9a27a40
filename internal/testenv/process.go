//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one started program. It does not outlive the test binary.
type process struct {
	pid    int
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended and its number is free
	log    string
	since  int64 // where its part of the log begins
}

// startProcess starts cmd with both outputs appended to the file log.
func startProcess(cmd *exec.Cmd, log string, r *reaper) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = cleanEnv()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // a Ctrl-C for the binary is not for it
	dieWithParent(cmd.SysProcAttr)

	p := &process{cmd: cmd, exited: make(chan struct{}), log: log, since: size}
	started := make(chan error)
	go func() {
		// The parent-death signal fires when the thread that forked ends, so this one must last as
		// long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		r.watch(p.pid)
		started <- nil
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		r.forget(p.pid)
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", cmd.Path, err), file.Close())
	}
	_ = file.Close() // the program has its own
	return p, nil
}

// running reports whether it has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// wait returns once it has ended; if limit passes first, it is killed and wait reports false.
func (p *process) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.exited
		return false
	}
}

// output is what it has written so far.
func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[min(p.since, int64(len(text))):])
}

// failure is an error that says how it ended, if it has, with the last lines of its log.
func (p *process) failure(what string) error {
	state := "still runs"
	if !p.running() {
		state = p.cmd.ProcessState.String()
	}
	return fmt.Errorf("%s: %s (%s); its log ends:\n%s", p.cmd.Path, what, state, lastLines(p.output(), 20))
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// cleanEnv is the environment without what would redirect PostgreSQL's programs, and with untranslated
// messages, which we search.
func cleanEnv() []string {
	env := []string{"LC_ALL=C"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") {
			env = append(env, kv)
		}
	}
	return env
}
