//go:build !unix

package place

import (
	"io/fs"
	"os"
)

// keepAttributes gives the new store the mode of the old one, with the bits of
// also.
func (s *Stage) keepAttributes(also fs.FileMode) error {
	if s.opts.Directory != s.old.IsDir() {
		return nil
	}
	return os.Chmod(s.Path, s.old.Mode().Perm()|also)
}
