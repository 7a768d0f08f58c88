package host

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes returns attributes that start a child in its own process group. The
// kernel kills the child when the spawner's thread ends, for example because the host
// died.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the process to exit without reaping it, so that its id and its
// group id are not reused. It reports whether the wait succeeded.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
