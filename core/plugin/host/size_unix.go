//go:build unix

package host

import (
	"io/fs"
	"syscall"
)

// allocated returns the disk space that a file occupies, in bytes.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
