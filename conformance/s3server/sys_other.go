//go:build !linux

package s3server

import "syscall"

// withParent would make the server end with this process; this system cannot.
func withParent() *syscall.SysProcAttr { return nil }

// quickDir returns "": the usual place for temporary directories.
func quickDir() string { return "" }
