package shm

import "errors"

// ErrNoDescriptor is returned by Receive if a received descriptor is lost because this
// process has no free descriptor.
var ErrNoDescriptor = errors.New("no free descriptor")
