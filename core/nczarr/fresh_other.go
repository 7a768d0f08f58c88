//go:build !linux

package nczarr

// preferHugePages does nothing where memory has one page size, or a better
// default.
func preferHugePages([]byte) {}
