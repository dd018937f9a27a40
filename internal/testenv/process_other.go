//go:build unix && !linux

package testenv

import (
	"bytes"
	"os/exec"
	"strconv"
	"syscall"
)

// dieWithParent does nothing: there is no parent-death signal here. The reaper does the work.
func dieWithParent(*syscall.SysProcAttr) {}

// processes lists all processes of the machine.
func processes() ([]status, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, err
	}
	var all []status
	for line := range bytes.Lines(out) {
		fields := bytes.Fields(line)
		if len(fields) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(string(fields[0]))
		parent, _ := strconv.Atoi(string(fields[1]))
		state := fields[2][0]
		all = append(all, status{pid: pid, parent: parent, stopped: state == 'T' || state == 'U', dead: state == 'Z'})
	}
	return all, nil
}
