package host

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes puts a child into a group of its own, and has the kernel
// kill it when the thread of the spawner, and so the host, dies.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the process has ended, without reaping it: until then
// neither its number nor that of its group can belong to another.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
