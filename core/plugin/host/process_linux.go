package host

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes starts a child in a process group of its own. The kernel kills the
// child when the spawner's thread dies, and so when the host dies.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the process to exit without reaping it, so that its id and its
// group id are not reused yet. It reports whether that succeeded.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
