package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
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

// maxLockTries is the number of times that NewFileHold tries to lock a file, which
// [FileHeld] may have locked for a moment.
const maxLockTries = 200

// NewFileHold is like [NewHold] for a file. It fails with errors.ErrUnsupported on a file
// system without locks.
func NewFileHold(path string) (*Hold, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for try := range maxLockTries {
		if err = lock(f); !errors.Is(err, errLocked) {
			break
		}
		time.Sleep(time.Duration(min(try, 20)) * time.Millisecond)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Hold{f}, nil
}

// FileHeld reports whether another process, or another Hold of this process, has locked
// the file at path. known is false if that cannot be determined. A file that does not exist is
// not locked.
func FileHeld(path string) (held, known bool) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, true
	}
	if err != nil {
		return false, false
	}
	defer f.Close() // closing releases the lock
	err = lockShared(f)
	return errors.Is(err, errLocked), err == nil || errors.Is(err, errLocked)
}
