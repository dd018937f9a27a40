package testenv

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// processes lists all processes of the machine.
func processes() ([]status, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []status
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// "PID (NAME) STATE PARENT ...", where NAME may contain anything.
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		state := fields[0][0]
		all = append(all, status{
			pid: pid, parent: parent,
			stopped: state == 'T' || state == 't' || state == 'D',
			dead:    state == 'Z' || state == 'X',
		})
	}
	return all, nil
}
