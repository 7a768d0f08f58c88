//go:build unix

package plugin

import (
	"os"

	"golang.org/x/sys/unix"
)

// protectStdout keeps the handshake line alone on the pipe that the host
// reads: os.Stdout becomes a private copy of descriptor 1, which go-plugin
// prints its line to, and descriptor 1 itself becomes standard error for
// everything else that writes to it.
func protectStdout() error {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return err
	}
	if err := dup2(2, 1); err != nil {
		return err
	}
	os.Stdout = os.NewFile(uintptr(fd), "/dev/stdout") // go-plugin prints its line there
	return nil
}
