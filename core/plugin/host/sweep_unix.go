//go:build unix

package host

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownDir marks a private directory as that of a living host: the lock on its
// file "owner" ends with the process, however it ends. The file gets its name
// when it is locked, so that no other host finds it unlocked and removes the
// directory.
func ownDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, ownerFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the private directories, next to ours, of hosts of this user
// that were killed.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // not ours, or just being made
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // what cannot be removed stays for the next
		}
		_ = f.Close()
	}
}
