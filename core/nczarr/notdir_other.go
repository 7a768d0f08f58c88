//go:build !unix

package nczarr

// notDirectory reports whether an error means that a path leads through something that
// is not a directory. It returns false, because on this system such a path does not
// exist.
func notDirectory(error) bool { return false }
