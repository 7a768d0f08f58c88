//go:build !linux

package shm

import (
	"errors"
	"os"
)

// Available reports whether this system supports level 1.
const Available = false

// Create fails, because this system lacks sealable memory.
func Create(string, int64, bool) ([]byte, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// Map fails.
func Map(int, int64, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap fails.
func Unmap([]byte) error { return errors.ErrUnsupported }

// Release fails.
func Release([]byte) error { return errors.ErrUnsupported }

// Pair fails.
func Pair() (ours, theirs *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// Send fails.
func Send(*os.File, uint64, *os.File) error { return errors.ErrUnsupported }

// Receive fails.
func Receive(*os.File) (uint64, *os.File, error) { return 0, nil, errors.ErrUnsupported }

// Inherit fails.
func Inherit(int) (*os.File, error) { return nil, errors.ErrUnsupported }

// Dup fails.
func Dup(*os.File) (int, error) { return 0, errors.ErrUnsupported }

// MaxFiles returns 0.
func MaxFiles() int64 { return 0 }
