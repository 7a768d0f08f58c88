//go:build unix

package host

import (
	"errors"
	"os"
	"syscall"
)

// killGroup kills the process group led by pid. The process pid must not have been
// reaped before, because its id could be reused.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// terminate sends SIGTERM to a process.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// alive reports whether a process exists, even if it belongs to another user.
func alive(p *os.Process) bool {
	err := p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}
