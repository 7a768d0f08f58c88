//go:build !linux

package s3server

import "syscall"

// withParent returns nil: on this system the server cannot be made to end with this
// process.
func withParent() *syscall.SysProcAttr { return nil }

// memoryDir returns "", the default directory for temporary files.
func memoryDir() string { return "" }
