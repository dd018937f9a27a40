//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// canStop says that this system can't stop a process: a pause is simulated, by a processor that waits
// for a message and renews no lease meanwhile.
var canStop = false

// start starts cmd. It calls ended once, when the process has ended, with how it did.
func start(cmd *exec.Cmd, _ func(), ended func(how string)) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // what it returns is in the state
		ended(cmd.ProcessState.String())
	}()
	return nil
}

func stop(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) {}
