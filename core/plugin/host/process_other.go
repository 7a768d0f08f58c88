//go:build !unix

package host

import (
	"os"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func awaitExit(int) bool { return false }

// killGroup does nothing, because this platform has no process groups. The process
// itself is killed through its handle.
func killGroup(int) {}

// terminate kills the process, because this platform has no termination signal.
func terminate(p *os.Process) { _ = p.Kill() }

// alive returns true, because os.FindProcess fails for a process that does not exist.
func alive(*os.Process) bool { return true }
