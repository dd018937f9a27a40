//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// canStop says that this system can stop a process in the middle of anything.
var canStop = true

// start starts cmd. It calls stopped each time that the process has been stopped, and ended once, when
// it has ended, with how it did. Neither is called when start returns an error.
//
// The process is in a group of its own, so that a Ctrl-C reaches the parent only. It does not outlive
// the parent: its input ends; if it stands still, the system lets it go on with a SIGHUP, as a stopped
// group that nobody is left to resume; and Linux kills it.
func start(cmd *exec.Cmd, stopped func(), ended func(how string)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// Linux takes the end of the thread that started the process for the end of the parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for {
			var status syscall.WaitStatus
			_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				ended(err.Error())
				return
			case status.Stopped():
				stopped()
			case status.Signaled():
				ended("signal: " + status.Signal().String())
				return
			case status.Exited():
				ended(fmt.Sprintf("exit status %d", status.ExitStatus()))
				return
			}
		}
	}()
	return <-started
}

// stop stops the process, wherever it is, until resume.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets a stopped process go on; to others it does nothing.
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
