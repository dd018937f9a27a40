//go:build unix

package testenv

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reaper is a shell that outlives the test binary by a moment. It reads a pipe whose other end only
// the binary holds; however the binary ends - also by SIGKILL - the pipe closes, and the reaper ends
// the servers that are still listed and removes their folder. Linux has a parent-death signal besides
// (see process_linux.go), which is immediate but does not reach a server's children.
type reaper struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser

	mu   sync.Mutex
	pids map[int]struct{}
}

// Each line is the whole list of process numbers; the last one counts. Children of the servers are
// known by where they work, if the system shows it; those of a dead PostgreSQL end by themselves, unless
// they are busy. The lock file of a killed PostgreSQL names the shared memory that it left in the system.
const reaperScript = `
while IFS= read -r line; do list=$line; done
if [ -n "$list" ]; then
	kill -KILL $list
	for process in /proc/[0-9]*; do
		case $(readlink "$process/cwd") in "$1"/*) kill -KILL "${process#/proc/}" ;; esac
	done
	sleep 1
	for lock in "$1"/*/data/postmaster.pid; do
		[ -e "$lock" ] && ipcrm -m "$(sed -n '7s/.* //p' "$lock")"
	done
fi
rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
`

func startReaper(dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "testenv-reaper", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C for the binary is not for it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	return &reaper{cmd: cmd, pipe: pipe, pids: map[int]struct{}{}}, nil
}

// watch has the processes killed when this binary ends.
func (r *reaper) watch(pids ...int) {
	r.change(func() {
		for _, pid := range pids {
			r.pids[pid] = struct{}{}
		}
	})
}

// forget takes the processes off the list; call it before their numbers can be reused.
func (r *reaper) forget(pids ...int) {
	r.change(func() {
		for _, pid := range pids {
			delete(r.pids, pid)
		}
	})
}

func (r *reaper) change(edit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit()
	items := make([]string, 0, len(r.pids))
	for _, pid := range slices.Sorted(maps.Keys(r.pids)) {
		items = append(items, strconv.Itoa(pid))
	}
	// If the reaper is gone there is nobody to tell; the tests can go on.
	_, _ = fmt.Fprintln(r.pipe, strings.Join(items, " "))
}

// close lets the reaper end. The folder is gone already and the list empty, or it sees to both.
func (r *reaper) close() error {
	_ = r.pipe.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("reaper: %w", err)
	}
	return nil
}
