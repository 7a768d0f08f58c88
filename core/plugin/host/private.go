package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Limits of the private directory of a process. Options.MaxMemory limits its size.
const (
	privateEntries = 1_000
	privateDepth   = 32
)

// dirProblem returns the reason why a private directory is not acceptable: it exceeds a
// limit or cannot be read. It returns "" for an acceptable directory. A maxBytes of 0
// means no size limit.
func dirProblem(dir string, maxBytes int64) (why string) {
	var size int64
	entries := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the entry was removed during the walk
		case err != nil:
			why = "cannot read the private directory"
			return fs.SkipAll
		}
		entries++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += diskUsage(info)
		}
		switch {
		case entries > privateEntries:
			why = "the private directory has too many entries"
		case maxBytes > 0 && size > maxBytes:
			why = "the private directory is larger than plugins.max_memory"
		case strings.Count(path[len(dir):], string(filepath.Separator)) > privateDepth:
			why = "the private directory tree is too deep"
		default:
			return nil
		}
		return fs.SkipAll
	})
	if err != nil && why == "" {
		why = "cannot read the private directory"
	}
	return why
}
