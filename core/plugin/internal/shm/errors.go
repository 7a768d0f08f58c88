package shm

import "errors"

// ErrNoDescriptor says that this process may have no more descriptors, so
// that one that was lent is lost.
var ErrNoDescriptor = errors.New("no more descriptors")
