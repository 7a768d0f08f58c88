//go:build unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// directory contains the flags for opening a directory. With these flags, opening
// anything else fails, including a link to a directory.
const directory = unix.O_DIRECTORY | unix.O_NOFOLLOW

// lock locks an open file without waiting. The lock ends with the process. lock fails
// with errLocked if another open file has the lock, and with errors.ErrUnsupported if
// the file system has no locks.
func lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// lockShared is like lock, but acquires a shared lock.
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

// LinkCount returns the number of hard links of a file.
func LinkCount(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// isOwner reports whether the effective user owns a file.
func isOwner(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
