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

// nonblock is nothing here: opening never waits.
const nonblock = 0

// directory is nothing here: reading names from a file fails later.
const directory = 0

// missing reports whether a path leads nowhere.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fileNumber gives nothing: package os does not show it here.
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

// systemFlaw says why the system cannot hold a name.
func systemFlaw(name string) string {
	switch {
	case strings.ContainsAny(name, `\:*?"<>|`):
		return `holds one of \:*?"<>|`
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "ends in a dot or a blank"
	case !filepath.IsLocal(name):
		return "is the name of a device"
	}
	return ""
}

// otherDevice reports false: a mounted volume is a link here, which nothing
// follows.
func (*Map) otherDevice(string) bool { return false }

// lock fails: nothing tells here whether the writer of a file is alive.
func lock(*os.File) (held int, err error) { return noLock, errors.ErrUnsupported }

func flock(int) error { return errors.ErrUnsupported }

func unlock(int) {}

// nameless reports false: a file that is open keeps its name here.
func nameless(fs.FileInfo) bool { return false }
