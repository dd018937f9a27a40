//go:build unix && !linux

package main

import "syscall"

// dieWithParent has nothing to do: the end of the input and SIGHUP have to do.
func dieWithParent(*syscall.SysProcAttr) {}
