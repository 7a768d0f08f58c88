//go:build unix

package host

import (
	"errors"
	"os"
	"syscall"
)

// killGroup kills the process group with the id pid. The process with that id must not
// have been reaped before, because the id could have been reused.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// terminate sends SIGTERM to a process.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// alive reports whether a process exists, even if it belongs to another user.
func alive(p *os.Process) bool {
	err := p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}
