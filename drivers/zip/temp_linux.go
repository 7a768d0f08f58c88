package zip

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openUnnamed creates a file in dir that never has a name, so that a process killed at
// any moment leaves nothing. Not all file systems support that. The name that the
// returned file reports does not exist.
func openUnnamed(dir, base string) (*os.File, error) {
	fd, err := unix.Open(filepath.Join(dir, "."), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), tempName(dir, base)), nil
}
