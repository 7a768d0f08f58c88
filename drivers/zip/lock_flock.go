//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package zip

import (
	"os"
	"syscall"
)

// tryLock locks an open file until it is unlocked or closed, or the process ends. It
// returns false if another process holds the lock, and an error if the file system has
// no locks.
func tryLock(f *os.File) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK { //nolint:errorlint // a system call returns an unwrapped Errno
		return false, nil
	}
	return err == nil, err
}

// unlock releases the lock of an open file.
func unlock(f *os.File) { _ = flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); locked != syscall.EINTR { // a system call returns an unwrapped Errno
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return locked
}
