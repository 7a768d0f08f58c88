package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrHeld reports that another process, or another Hold, has locked a directory.
var ErrHeld = errLocked

// Hold is a lock on a directory. It prevents other processes from writing a store to the
// directory. The lock ends with the process.
type Hold struct {
	dir *os.File // nil after Release
}

// NewHold locks the directory at path. It follows links. It fails with ErrHeld if the
// directory is already locked. On a file system without locks, NewHold succeeds, but
// does not affect other processes.
func NewHold(path string) (*Hold, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	d, err := openLocked(real)
	if err != nil {
		return nil, err
	}
	return &Hold{d}, nil
}

// openLocked opens and locks a directory. It fails with fs.ErrNotExist if the directory
// was removed or replaced before it was locked. On a file system without locks, the
// directory stays unlocked.
func openLocked(dir string) (*os.File, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|directory, 0)
	if err != nil {
		return nil, err
	}
	if err = lock(d); errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if err == nil && !sameName(d) {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// Held reports whether h has locked a directory. It returns false for a nil Hold.
func (h *Hold) Held() bool { return h != nil && h.dir != nil }

// ErrReplaced reports that the name of a locked directory now refers to another
// directory.
var ErrReplaced = errors.New("another process has replaced the directory")

// Check fails with ErrReplaced if the name of the directory refers to another directory.
func (h *Hold) Check() error {
	if !sameName(h.dir) {
		return ErrReplaced
	}
	return nil
}

// Remove removes the directory, which must be empty, and releases it. If path is a link
// to the directory, Remove also removes the link. If another process has replaced the
// directory, Remove fails and removes nothing.
func (h *Hold) Remove(path string) error {
	if err := h.Check(); err != nil {
		return err
	}
	real := h.dir.Name()
	if runtime.GOOS == "windows" { // Windows cannot remove open files
		h.Release()
	}
	err := removeDir(real)
	h.Release()
	if _, serr := os.Stat(path); err != nil || path == real || !errors.Is(serr, fs.ErrNotExist) {
		return err
	}
	if _, lerr := os.Lstat(path); lerr == nil { // path is a link to the removed directory
		return os.Remove(path)
	}
	return nil
}

// Held reports whether another process, or another Hold of this process, has locked the
// directory at path. It returns false if the directory cannot be opened.
func Held(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	d, err := os.OpenFile(real, os.O_RDONLY|directory, 0)
	if err != nil {
		return false
	}
	defer d.Close() // closing releases the lock
	return errors.Is(lockShared(d), errLocked)
}

// Release releases the lock. Further calls have no effect.
func (h *Hold) Release() {
	if h != nil && h.dir != nil {
		_ = h.dir.Close()
		h.dir = nil
	}
}
