//go:build !linux

package dataset

// preferHugePages does nothing on systems other than Linux: they have only one page size
// or choose a suitable one by default.
func preferHugePages([]byte) {}
