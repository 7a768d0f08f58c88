//go:build unix

package host

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity tells a file from another that takes its name later.
func identity(st fs.FileInfo) string {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("#%d:%d", s.Dev, s.Ino)
	}
	return ""
}
