//go:build unix

package plugin

import (
	"os"

	"golang.org/x/sys/unix"
)

// protectStdout reserves standard output for the handshake line that go-plugin prints
// to os.Stdout. It makes os.Stdout a private copy of descriptor 1, and redirects
// descriptor 1 itself to standard error for all other writers.
func protectStdout() error {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return err
	}
	if err := dup2(2, 1); err != nil {
		return err
	}
	os.Stdout = os.NewFile(uintptr(fd), "/dev/stdout") // go-plugin prints the handshake line there
	return nil
}
