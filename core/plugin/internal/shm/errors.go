package shm

import "errors"

// ErrNoDescriptor is returned if this process has no free descriptor, and a received
// descriptor is therefore lost.
var ErrNoDescriptor = errors.New("no free descriptor")
