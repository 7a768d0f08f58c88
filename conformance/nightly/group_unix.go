//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup lets an interrupt reach all processes of a command, and no others.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
