//go:build !unix

package place

import (
	"io/fs"
	"os"
)

// keepAttributes copies the mode of the old store to the new one, and adds the bits of
// also. It does nothing if one store is a file and the other a directory.
func (s *Stage) keepAttributes(also fs.FileMode) error {
	if s.opts.Directory != s.old.IsDir() {
		return nil
	}
	return os.Chmod(s.Path, s.old.Mode().Perm()|also)
}
