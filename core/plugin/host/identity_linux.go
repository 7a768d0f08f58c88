package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity returns a string that distinguishes the file now at path from a later file
// at the same path, even if both have the same inode number. A sandbox rule for path
// applies only to the file that exists when the rule is created.
func identity(path string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("#%d:%d:%d:%d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
