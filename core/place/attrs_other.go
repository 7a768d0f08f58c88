//go:build !unix

package place

import (
	"io/fs"
	"os"
)

// keepAttributes sets the mode of the new store to that of the old one, with the bits
// of also. It does nothing if one store is a file and the other a directory.
func (s *Stage) keepAttributes(also fs.FileMode) error {
	if s.opts.Directory != s.old.IsDir() {
		return nil
	}
	return os.Chmod(s.Path, s.old.Mode().Perm()|also)
}
