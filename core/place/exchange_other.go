//go:build !linux

package place

import "errors"

// exchange always fails with errors.ErrUnsupported.
func exchange(string, string) error { return errors.ErrUnsupported }
