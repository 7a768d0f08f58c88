package place

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange swaps two names atomically. It fails with errors.ErrUnsupported if the
// system or the file system does not support this.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
