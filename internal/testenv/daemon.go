//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second // to be ready
	stopLimit  = 10 * time.Second // to end when told to
)

// daemon is a server in a folder of its own, on a port of its own, that can be paused, ended and
// started again. Its methods are safe for concurrent use.
type daemon struct {
	kind    kind
	dir     string
	reaper  *reaper
	mu      sync.Mutex
	port    int
	process *process // the latest one; nil before the first start
	frozen  []int    // the processes that Pause stopped
}

// kind is what differs between the servers.
type kind interface {
	name() string
	freePort() (int, error)
	command(dir string, port int) *exec.Cmd
	ready(dir string, port, pid int) error // nil once the process pid serves on port
	polite() syscall.Signal                // ends it, data kept
	clean(dir string)                      // removes what it has left outside dir when it was killed
}

var errNotYet = errors.New("not ready yet")

// startDaemon starts a server in dir on a free port. On failure it removes dir.
func startDaemon(k kind, dir string, r *reaper) (*daemon, error) {
	d := &daemon{kind: k, dir: dir, reaper: r}
	deadline := time.Now().Add(startLimit)
	again := true
	var err error
	for again {
		if d.port, err = k.freePort(); err != nil {
			break
		}
		again, err = d.launch(deadline)
	}
	if err != nil {
		k.clean(dir)
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, nil
}

func (d *daemon) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)) }

// launch starts the process and waits until it is ready. again says that it failed for a reason that
// may pass: somebody else on the port, or remains of a killed predecessor.
func (d *daemon) launch(deadline time.Time) (again bool, err error) {
	cmd := d.kind.command(d.dir, d.port)
	p, err := startProcess(cmd, filepath.Join(d.dir, "log"), d.reaper)
	if err != nil {
		return false, err
	}
	d.process = p
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := errNotYet
	for {
		select {
		case <-p.exited:
			out := p.output()
			again = time.Now().Before(deadline) &&
				(strings.Contains(out, "Address already in use") || strings.Contains(out, "shared memory block"))
			return again, p.failure("ended while starting")
		case <-timeout.C:
			err := p.failure(fmt.Sprintf("not ready after %v: %v", startLimit, last))
			return false, errors.Join(err, d.killLocked())
		case <-tick.C:
			if last = d.kind.ready(d.dir, d.port, p.pid); last == nil {
				return false, nil
			}
		}
	}
}

// check returns an error if the server has ended by itself.
func (d *daemon) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.checkLocked()
}

func (d *daemon) checkLocked() error {
	if !d.process.running() {
		return d.process.failure("is not running")
	}
	return nil
}

// serving reports whether it runs and is not paused.
func (d *daemon) serving() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.frozen == nil && d.process.running()
}

// report is an error that shows the state of the server and the end of its log.
func (d *daemon) report(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.failure(what)
}

func (d *daemon) pause() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen != nil {
		return nil
	}
	if err := d.checkLocked(); err != nil {
		return err
	}
	members, err := freeze(d.process.pid, stopLimit)
	d.frozen = members
	d.reaper.watch(members[min(1, len(members)):]...)
	return err
}

func (d *daemon) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resumeLocked()
}

func (d *daemon) resumeLocked() {
	if d.frozen == nil {
		return
	}
	if len(d.frozen) > 1 {
		d.reaper.forget(d.frozen[1:]...)
	}
	signalAll(d.frozen, syscall.SIGCONT)
	d.frozen = nil
}

func (d *daemon) kill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.killLocked()
}

// killLocked ends the whole family at once.
func (d *daemon) killLocked() error {
	if !d.process.running() {
		return nil
	}
	members := d.frozen
	var err error
	if members == nil {
		// Stopped first, none of them notices that another one dies, and none is added.
		members, err = freeze(d.process.pid, stopLimit)
		if errors.Is(err, syscall.ESRCH) {
			err = nil // it has just ended by itself
		}
	}
	signalAll(members, syscall.SIGKILL)
	<-d.process.exited
	err = errors.Join(err, await(members, stopLimit))
	if len(members) > 1 {
		d.reaper.forget(members[1:]...)
	}
	d.frozen = nil
	return err
}

func (d *daemon) stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopLocked()
}

// stopLocked ends the server politely; if that takes too long, by force, and that is an error.
func (d *daemon) stopLocked() error {
	if !d.process.running() {
		return nil
	}
	_ = d.process.cmd.Process.Signal(d.kind.polite())
	d.resumeLocked()
	select {
	case <-d.process.exited:
		return nil
	case <-time.After(stopLimit):
		err := d.process.failure(fmt.Sprintf("did not end within %v of %v", stopLimit, d.kind.polite()))
		return errors.Join(err, d.killLocked())
	}
}

// restart starts the server again on its port with its data; one that still runs is stopped first.
func (d *daemon) restart() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.stopLocked(); err != nil {
		return err
	}
	deadline := time.Now().Add(startLimit)
	for {
		again, err := d.launch(deadline)
		if !again {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// discard ends the server, whatever state it is in, and removes its folder.
func (d *daemon) discard() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.killLocked()
	d.kind.clean(d.dir)
	return errors.Join(err, os.RemoveAll(d.dir))
}
