//go:build unix && !linux

package host

import "syscall"

// processAttributes puts a child into a group of its own. There is no
// parent-death signal here; the lifeline does its work.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit cannot wait without reaping here: what is left of the group is
// killed just after.
func awaitExit(int) bool { return false }
