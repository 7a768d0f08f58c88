//go:build unix

package place

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// giveOwner gives the file at path, and everything below it, the owner and the
// group of like.
func giveOwner(path string, like fs.FileInfo) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return walk(path, func(name string, info fs.FileInfo) error {
		is, ok := info.Sys().(*syscall.Stat_t)
		if !ok || is.Uid == want.Uid && is.Gid == want.Gid {
			return nil
		}
		if err := os.Lchown(name, int(want.Uid), int(want.Gid)); err != nil {
			return fmt.Errorf("the owner (user %d, group %d) cannot be kept: %w", want.Uid, want.Gid, err)
		}
		return nil
	})
}
