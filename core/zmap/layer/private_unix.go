//go:build unix

package layer

import (
	"os"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkPrivate fails unless only the current user can create files in dir. A checksum detects
// damage, but not forged content.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "%s belongs to another user or is writable by others", dir)
	}
	return nil
}
