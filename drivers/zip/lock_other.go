//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package zip

import (
	"errors"
	"os"
	"runtime"
)

// tryLock does not lock on Windows, where an open file cannot be deleted. On other
// systems it returns an error, because they do not reveal whether a file is open.
func tryLock(*os.File) (bool, error) {
	if runtime.GOOS == "windows" {
		return true, nil
	}
	return false, errors.ErrUnsupported
}

func unlock(*os.File) {}
