//go:build !linux

package main

import "errors"

// exchange would swap two names in one step; here it is always
// errors.ErrUnsupported.
func exchange(string, string) error { return errors.ErrUnsupported }
