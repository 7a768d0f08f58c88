//go:build unix

package dataset

import (
	"errors"
	"syscall"
)

// notDirectory reports whether an error means that a path leads through something that
// is not a directory.
func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
