//go:build !unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeAll removes a directory tree. It removes the mark last.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != markName {
			err = join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// removeDir removes an empty directory.
func removeDir(path string) error { return os.Remove(path) }
