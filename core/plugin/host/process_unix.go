//go:build unix

package host

import (
	"os"
	"syscall"
)

// killGroup kills the group that the process leads. The process is not reaped.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// terminate asks a process to end.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
