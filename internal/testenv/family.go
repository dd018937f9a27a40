//go:build unix

package testenv

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// PostgreSQL serves each connection with a process of its own, in a session of its own: a signal to
// the server's process group reaches none of them. A family is the server and all its descendants.

// status is one process as the system shows it.
type status struct {
	pid, parent int
	stopped     bool // by a signal; or it waits in the kernel, and a signal sent will stop it before it runs again
	dead        bool // ended, not yet reaped
}

// freeze stops a whole family and returns its members, the server first. When it returns, all of them
// have stopped: the server goes first, so that it forks no more.
func freeze(server int, limit time.Duration) ([]int, error) {
	deadline := time.Now().Add(limit)
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", server, err)
	}
	members := []int{server}
	for {
		all, err := processes()
		if err != nil {
			return members, err
		}
		pending := 0
		for _, s := range all {
			isMember := slices.Contains(members, s.pid)
			if s.dead || !isMember && !slices.Contains(members, s.parent) {
				continue
			}
			if !isMember {
				members = append(members, s.pid)
				_ = syscall.Kill(s.pid, syscall.SIGSTOP) // fails only if it has ended
			}
			if !isMember || !s.stopped {
				pending++
			}
		}
		if pending == 0 {
			return members, nil
		}
		if time.Now().After(deadline) {
			return members, fmt.Errorf("%d of the processes %v did not stop within %v", pending, members, limit)
		}
		time.Sleep(time.Millisecond)
	}
}

// signalAll sends sig to every member, the server last. A member that has ended is no error.
func signalAll(members []int, sig syscall.Signal) {
	for _, pid := range slices.Backward(members) {
		_ = syscall.Kill(pid, sig)
	}
}

// await returns once all members have ended.
func await(members []int, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		alive := slices.ContainsFunc(all, func(s status) bool { return !s.dead && slices.Contains(members, s.pid) })
		if !alive {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("some of the processes %v did not end within %v", members, limit)
		}
		time.Sleep(time.Millisecond)
	}
}
