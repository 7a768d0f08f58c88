//go:build unix

package host

import (
	"io/fs"
	"syscall"
)

// diskUsage returns the disk space that a file occupies, in bytes.
func diskUsage(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
