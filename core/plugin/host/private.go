package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// The ceilings on what a process keeps in its private directory, besides its
// size, which is bounded like its memory.
const (
	privateEntries = 1_000
	privateDepth   = 32
)

// overfull says what is wrong with a private directory: that it holds too much,
// or what nobody can look at. Empty is nothing. maxBytes of 0 is any number.
func dirProblem(dir string, maxBytes int64) (why string) {
	var size int64
	entries := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed meanwhile
		case err != nil:
			why = "its private directory cannot be looked at"
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
			why = "its private directory has become larger than plugins.max_memory"
		case strings.Count(path[len(dir):], string(filepath.Separator)) > privateDepth:
			why = "its private directory is too deep"
		default:
			return nil
		}
		return fs.SkipAll
	})
	if err != nil && why == "" {
		why = "its private directory cannot be looked at"
	}
	return why
}
