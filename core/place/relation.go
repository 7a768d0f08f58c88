package place

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Relation describes the position of one path relative to another.
type Relation uint8

// The relations.
const (
	Disjoint Relation = iota // neither contains the other
	Same                     // both are the same file or directory
	Below                    // the second is inside the first
	Above                    // the first is inside the second
)

// Compare returns the position of to relative to from. It compares file identities, so
// that links, relative paths and case-insensitive file systems do not matter. The paths
// need not exist.
func Compare(from, to string) Relation {
	src, dst := ancestors(from), ancestors(to)
	switch {
	case len(src) == 0 || len(dst) == 0:
		return Disjoint
	case src[0].is(dst[0]):
		return Same
	}
	for _, up := range dst[1:] {
		if src[0].is(up) {
			return Below
		}
	}
	for _, up := range src[1:] {
		if dst[0].is(up) {
			return Above
		}
	}
	return Disjoint
}

// file is a path with its FileInfo, which is nil if the file does not exist.
type file struct {
	path string
	info fs.FileInfo
}

func (f file) is(g file) bool {
	if f.info == nil || g.info == nil {
		return f.info == nil && g.info == nil && f.path == g.path
	}
	return os.SameFile(f.info, g.info)
}

// ancestors returns a path and all directories above it, both with the links in the path
// and with the links resolved.
func ancestors(path string) []file {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	out := walkUp(abs)
	for i, f := range out { // resolve links in the innermost existing path
		if f.info == nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(f.path); err == nil && real != f.path {
			rest, _ := filepath.Rel(f.path, abs) // abs is below f.path
			if i == 0 {
				rest = "."
			}
			out = append(out, walkUp(filepath.Join(real, rest))...)
		}
		break
	}
	return out
}

func walkUp(path string) []file {
	var out []file
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		info, _ := os.Stat(at) // nil if the file does not exist
		out = append(out, file{at, info})
		if at == filepath.Dir(at) {
			return out
		}
	}
}
