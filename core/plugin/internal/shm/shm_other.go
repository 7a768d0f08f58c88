//go:build !linux

package shm

import (
	"errors"
	"os"
)

// Available reports whether this system supports level 1.
const Available = false

// Create returns errors.ErrUnsupported, because this system lacks sealable memory.
func Create(string, int64, bool) ([]byte, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// Map returns errors.ErrUnsupported.
func Map(int, int64, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap returns errors.ErrUnsupported.
func Unmap([]byte) error { return errors.ErrUnsupported }

// Release returns errors.ErrUnsupported.
func Release([]byte) error { return errors.ErrUnsupported }

// Pair returns errors.ErrUnsupported.
func Pair() (hostEnd, pluginEnd *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// Send returns errors.ErrUnsupported.
func Send(*os.File, uint64, *os.File) error { return errors.ErrUnsupported }

// Receive returns errors.ErrUnsupported.
func Receive(*os.File) (uint64, *os.File, error) { return 0, nil, errors.ErrUnsupported }

// Inherit returns errors.ErrUnsupported.
func Inherit(int) (*os.File, error) { return nil, errors.ErrUnsupported }

// Dup returns errors.ErrUnsupported.
func Dup(*os.File) (int, error) { return 0, errors.ErrUnsupported }

// MaxFiles returns 0.
func MaxFiles() int64 { return 0 }
