//go:build !unix

package nczarr

// notDirectory reports whether a path leads through something that is not a
// directory; such a path does not exist here.
func notDirectory(error) bool { return false }
