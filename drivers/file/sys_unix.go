//go:build unix

package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// nonblock makes opening a pipe or a device return immediately.
const nonblock = syscall.O_NONBLOCK

// directory makes opening fail unless the path is a directory.
const directory = syscall.O_DIRECTORY

// missing reports whether err means that a path does not exist.
func missing(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
}

func fileNumber(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

func errnoKind(errno syscall.Errno) ncerr.Kind {
	switch errno {
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return ncerr.ErrPermission
	case syscall.ENAMETOOLONG, syscall.EILSEQ:
		return ncerr.ErrBadName
	case syscall.EOPNOTSUPP, syscall.ENOSYS:
		return ncerr.ErrUnsupported
	}
	return ncerr.ErrIO
}

// systemFlaw returns why the system cannot hold a name. On Unix every segment of a key
// is a valid name.
func systemFlaw(string) string { return "" }

// otherDevice reports whether dir is on another file system than the root.
func (m *Map) otherDevice(dir string) bool {
	info, err := m.root.Lstat(dir)
	if err != nil {
		return false // a later removal fails too
	}
	a, okA := info.Sys().(*syscall.Stat_t)
	b, okB := m.identity.Sys().(*syscall.Stat_t)
	return okA && okB && a.Dev != b.Dev
}

// lock locks a file through a duplicate descriptor, which it returns. The lock lasts
// until both descriptors are closed. The file can thus be closed, which reports
// failures on some network file systems, while the lock is still held. lock returns the
// errors from flock.
func lock(f *os.File) (held int, err error) {
	held, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return noLock, err
	}
	if err := flock(held); err != nil {
		unlock(held)
		return noLock, err
	}
	return held, nil
}

// flock locks an open file. It fails with errLocked if the lock is held through another
// open file.
func flock(fd int) error {
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}

func unlock(held int) { _ = unix.Close(held) }

// isUnlinked reports whether the last name of an open file was removed.
func isUnlinked(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
