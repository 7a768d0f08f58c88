//go:build unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// directory makes opening anything but a directory fail; a link is not one.
const directory = unix.O_DIRECTORY | unix.O_NOFOLLOW

// lock takes the lock of an open file, which ends with the process that holds
// it. It fails with errLocked if another has it, and with
// errors.ErrUnsupported if the file system has no locks.
func lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// lockShared is lock, but others may have the same.
func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		case err != nil:
			return errors.ErrUnsupported
		}
		return nil
	}
}

// Names returns how many names a file has.
func Names(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// ours reports whether a file belongs to this user.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
