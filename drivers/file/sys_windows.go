package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// nonblock is 0, because opening a file never blocks on Windows.
const nonblock = 0

// directory is 0, because reading names from a file fails later.
const directory = 0

// missing reports whether err means that a path does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fileNumber returns 0, because package os does not export file numbers on Windows.
func fileNumber(fs.FileInfo) uint64 { return 0 }

func errnoKind(errno syscall.Errno) ncerr.Kind {
	switch {
	case errors.Is(errno, fs.ErrPermission):
		return ncerr.ErrPermission
	case errno == windows.ERROR_INVALID_NAME, errno == windows.ERROR_FILENAME_EXCED_RANGE:
		return ncerr.ErrBadName
	case errno == windows.ERROR_NOT_SUPPORTED:
		return ncerr.ErrUnsupported
	}
	return ncerr.ErrIO
}

// systemFlaw returns why the system cannot hold a name, or "".
func systemFlaw(name string) string {
	switch {
	case strings.ContainsAny(name, `\:*?"<>|`):
		return `contains one of \:*?"<>|`
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "ends in a dot or a space"
	case !filepath.IsLocal(name):
		return "is a device name"
	}
	return ""
}

// otherDevice returns false, because a mounted volume is a link on Windows, and the
// driver does not follow it.
func (*Map) otherDevice(string) bool { return false }

// lock fails, because the driver cannot detect on Windows whether the writer of a file is
// alive.
func lock(*os.File) (held int, err error) { return noLock, errors.ErrUnsupported }

func flock(int) error { return errors.ErrUnsupported }

func unlock(int) {}

// isUnlinked returns false, because an open file keeps its name on Windows.
func isUnlinked(fs.FileInfo) bool { return false }
