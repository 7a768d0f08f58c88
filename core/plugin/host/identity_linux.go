package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity tells what is at a path from what takes its place later, also when
// it gets the same number: a rule of the sandbox is about the first only.
func identity(path string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("#%d:%d:%d:%d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
