//go:build unix

package layer

import (
	"os"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkPrivate fails if other users can create files in dir, because a checksum does not
// detect forged content.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "%q is not a directory, belongs to another user or is writable by others", dir)
	}
	return nil
}
