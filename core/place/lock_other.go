//go:build !unix

package place

import (
	"errors"
	"io/fs"
	"os"
)

// directory is a flag that this system lacks.
const directory = 0

// lock fails: nothing is ever swept here.
func lock(*os.File) error { return errors.ErrUnsupported }

func lockShared(*os.File) error { return errors.ErrUnsupported }

// Names returns 1: how many names a file has is not known here.
func Names(fs.FileInfo) int { return 1 }

func ours(fs.FileInfo) bool { return true }
