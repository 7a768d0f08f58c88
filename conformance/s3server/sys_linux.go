package s3server

import "syscall"

// withParent makes the server end with this process.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
