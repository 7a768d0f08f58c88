//go:build unix && !linux

package host

import "syscall"

// processAttributes returns attributes that start a child in its own process group.
// This platform has no parent-death signal, so a child must watch its lifeline.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns false, because this platform cannot wait for a process without
// reaping it.
func awaitExit(int) bool { return false }
