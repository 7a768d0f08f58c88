//go:build !linux

package zip

import (
	"errors"
	"os"
)

// openUnnamed fails: only Linux creates files without a name.
func openUnnamed(string, string) (*os.File, error) { return nil, errors.ErrUnsupported }
