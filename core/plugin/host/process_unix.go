//go:build unix

package host

import (
	"errors"
	"os"
	"syscall"
)

// killGroup kills the group that the process leads. The process is not reaped.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// terminate asks a process to end.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// alive asks whether a process is there; it may be another user's.
func alive(p *os.Process) bool {
	err := p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}
