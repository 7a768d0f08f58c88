//go:build unix

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeOwn makes a private directory in parent that is marked as that of a
// living host: the lock on it ends with the process, however it ends. A sweep
// of another host may take the directory before it is locked; then another one
// is made.
func makeOwn(parent string) (string, *os.File, error) {
	for {
		dir, err := os.MkdirTemp(parent, dirPrefix)
		if err != nil {
			return "", nil, err
		}
		f, err := lockDir(dir)
		if err == nil && sameDir(f, dir) {
			return dir, f, nil
		}
		if f != nil {
			_ = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
	}
}

// lockDir opens a directory, which is no link, and locks it unless another
// has.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sameDir reports whether an open directory is still the one with its name.
func sameDir(f *os.File, dir string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(dir)
	return err == nil && os.SameFile(is, named)
}

// sweep removes the private directories, next to ours, of hosts of this user
// that were killed.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		f, err := lockDir(dir)
		if err != nil {
			continue // not ours, or in use
		}
		_ = removeTree(dir) // what cannot be removed stays for the next
		_ = f.Close()
	}
}
