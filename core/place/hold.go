package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrHeld reports that another process holds a directory.
var ErrHeld = errLocked

// Hold is a directory that nobody else may fill. It ends with the process.
type Hold struct {
	dir *os.File // nil once it is released
}

// NewHold locks the directory at path, through links. It fails with ErrHeld if
// it is locked already. On a file system without locks it keeps nobody away.
func NewHold(path string) (*Hold, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	d, err := os.OpenFile(real, os.O_RDONLY|directory, 0)
	if err != nil {
		return nil, err
	}
	if err = lock(d); errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if err == nil && !sameName(d) { // it was removed, or replaced, before it was locked
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return &Hold{d}, nil
}

// Held reports whether h holds a directory, which a nil Hold does not.
func (h *Hold) Held() bool { return h != nil && h.dir != nil }

// ErrReplaced reports that a name leads to another directory than the one that
// is held.
var ErrReplaced = errors.New("somebody has replaced the directory meanwhile")

// Check fails with ErrReplaced if the directory does not have its name any more.
func (h *Hold) Check() error {
	if !sameName(h.dir) {
		return ErrReplaced
	}
	return nil
}

// Remove removes the directory, which must be empty, releases it, and removes
// the link at path that led to it, if it is one. What somebody has put in the
// place of the directory stays.
func (h *Hold) Remove(path string) error {
	if err := h.Check(); err != nil {
		return err
	}
	real := h.dir.Name()
	if runtime.GOOS == "windows" { // which removes no file that is open
		h.Release()
	}
	err := removeDir(real)
	h.Release()
	if _, serr := os.Stat(path); err != nil || path == real || !errors.Is(serr, fs.ErrNotExist) {
		return err
	}
	if _, lerr := os.Lstat(path); lerr == nil { // a link to what is gone
		return os.Remove(path)
	}
	return nil
}

// Held reports whether another process, or another part of this one, holds the
// directory at path. One that cannot be looked at is not held.
func Held(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	d, err := os.OpenFile(real, os.O_RDONLY|directory, 0)
	if err != nil {
		return false
	}
	defer d.Close() // only locked
	return errors.Is(lockShared(d), errLocked)
}

// Release lets others fill the directory. Only the first call does anything.
func (h *Hold) Release() {
	if h != nil && h.dir != nil {
		_ = h.dir.Close()
		h.dir = nil
	}
}
