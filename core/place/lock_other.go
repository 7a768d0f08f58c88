//go:build !unix

package place

import (
	"errors"
	"io/fs"
	"os"
)

// lock fails: nothing is ever swept here.
func lock(*os.File) error { return errors.ErrUnsupported }

func ours(fs.FileInfo) bool { return true }
