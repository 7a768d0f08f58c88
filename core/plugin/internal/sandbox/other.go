//go:build !linux || !(amd64 || arm64)

package sandbox

import "errors"

// Probe finds nothing: there is no sandbox on this platform.
func Probe() Support { return Support{} }

// Apply fails: no host asks for it here.
func Apply(string) (*Policy, error) { return nil, errors.New("there is no sandbox on this platform") }

// Seal does nothing here.
func (*Policy) Seal() error { return nil }
