package place

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyXattrs copies the extended attributes of from, including access control lists, to
// an open file. It skips the namespace "security", which the policy of the system
// controls.
func copyXattrs(from string, to *os.File) error {
	list, err := xattr(func(p []byte) (int, error) { return unix.Llistxattr(from, p) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if name == "" || strings.HasPrefix(name, "security.") {
			continue
		}
		value, err := xattr(func(p []byte) (int, error) { return unix.Lgetxattr(from, name, p) })
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value, 0)
		}
		if err != nil {
			return fmt.Errorf("the extended attribute %q cannot be preserved: %w", name, err)
		}
	}
	return nil
}

// xattr returns the data that get stores in a buffer of sufficient size.
func xattr(get func([]byte) (int, error)) ([]byte, error) {
	for {
		n, err := get(nil)
		if err != nil || n == 0 {
			return nil, err
		}
		p := make([]byte, n)
		n, err = get(p)
		if errors.Is(err, unix.ERANGE) { // the value has grown since the first call
			continue
		}
		return p[:max(n, 0)], err
	}
}
