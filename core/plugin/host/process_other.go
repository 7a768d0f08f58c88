//go:build !unix

package host

import (
	"os"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func awaitExit(int) bool { return false }

// killGroup does nothing: there are no groups, and the process itself is
// killed by its handle.
func killGroup(int) {}

// terminate kills: there is no gentle signal.
func terminate(p *os.Process) { _ = p.Kill() }

// alive is true: FindProcess fails for a process that is not there.
func alive(*os.Process) bool { return true }
