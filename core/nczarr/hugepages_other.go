//go:build !linux

package nczarr

// preferHugePages does nothing on systems with only one page size or a better default.
func preferHugePages([]byte) {}
