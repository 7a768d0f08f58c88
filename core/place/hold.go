package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrHeld reports that another process holds a directory.
var ErrHeld = errLocked

// Hold is a directory that nobody else may fill. It ends with the process.
type Hold struct {
	dir *os.File // nil on file systems without locks
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
	err = lock(d)
	if err == nil && sameName(d) {
		return &Hold{d}, nil
	}
	_ = d.Close()
	switch {
	case err == nil: // it was removed, or replaced, before it was locked
		return nil, fs.ErrNotExist
	case errors.Is(err, errors.ErrUnsupported):
		return &Hold{}, nil
	}
	return nil, err
}

// Release lets others fill the directory. Only the first call does anything.
func (h *Hold) Release() {
	if h != nil && h.dir != nil {
		_ = h.dir.Close()
		h.dir = nil
	}
}
