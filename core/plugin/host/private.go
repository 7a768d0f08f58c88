package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Limits of the private directory of a process. Its size is limited separately, like
// the memory.
const (
	privateEntries = 1_000
	privateDepth   = 32
)

// dirProblem returns what is wrong with a private directory: it holds too much or
// cannot be read. It returns "" if nothing is wrong. A maxBytes of 0 means no size
// limit.
func dirProblem(dir string, maxBytes int64) (why string) {
	var size int64
	entries := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed in the meantime
		case err != nil:
			why = "its private directory cannot be read"
			return fs.SkipAll
		}
		entries++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += allocated(info)
		}
		switch {
		case entries > privateEntries:
			why = "its private directory has too many entries"
		case maxBytes > 0 && size > maxBytes:
			why = "its private directory is larger than plugins.max_memory"
		case strings.Count(path[len(dir):], string(filepath.Separator)) > privateDepth:
			why = "its private directory tree is too deep"
		default:
			return nil
		}
		return fs.SkipAll
	})
	if err != nil && why == "" {
		why = "its private directory cannot be read"
	}
	return why
}
