//go:build unix && !linux

package host

import "syscall"

// processAttributes starts a child in a process group of its own. This platform has no
// parent-death signal; the lifeline serves instead.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns false, because this platform cannot wait without reaping. The rest
// of the group is killed right after the wait.
func awaitExit(int) bool { return false }
