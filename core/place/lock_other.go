//go:build !unix

package place

import (
	"errors"
	"io/fs"
	"os"
)

// directory is zero, because this system has no flags for opening only directories.
const directory = 0

// lock always fails on this system, so that Sweep removes nothing.
func lock(*os.File) error { return errors.ErrUnsupported }

func lockShared(*os.File) error { return errors.ErrUnsupported }

// LinkCount returns 1, because the number of hard links is unknown on this system.
func LinkCount(fs.FileInfo) int { return 1 }

func isOwner(fs.FileInfo) bool { return true }
