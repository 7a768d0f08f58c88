//go:build unix

package layer

import (
	"os"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// private makes sure that a directory is one into which nobody else puts
// files: checksums tell damage, but not what somebody has made up.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "%s belongs to another user, or others may write there", dir)
	}
	return nil
}
