//go:build !unix

package dataset

// notDirectory reports whether an error means that a path leads through something that is
// not a directory. It returns false, because on this system such an error matches
// fs.ErrNotExist.
func notDirectory(error) bool { return false }
