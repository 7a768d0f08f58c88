//go:build unix

package nczarr

import (
	"errors"
	"syscall"
)

// notDirectory reports whether a path leads through something that is not a
// directory.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
