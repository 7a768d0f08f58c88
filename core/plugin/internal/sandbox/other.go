//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
)

// Probe returns the zero Support, because this platform has no sandbox.
func Probe() Support { return Support{} }

// Apply fails, because this platform has no sandbox.
func Apply(string) (*Policy, error) { return nil, errors.New("this platform has no sandbox") }

// ErrNotHandedOver and ErrNotInspected are never returned on this platform.
var (
	ErrNotHandedOver = errors.New("the process did not send its seccomp notification descriptor")
	ErrNotInspected  = errors.New("the sockets of the process cannot be inspected")
)

// ListeningPair fails, because this platform has no sandbox.
func ListeningPair() (hostEnd, childEnd *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}

// Supervise fails, because this platform has no sandbox.
func Supervise(*os.File, bool) error { return errors.ErrUnsupported }

// Seal does nothing on this platform.
func (*Policy) Seal() error { return nil }
