// Package shm is the memory and the channel that host and plugin share at
// level 1 of the data plane: sealed segments, and a pair of sockets whose end
// of file tells each side that the other is gone, and which carries lent
// descriptors from the plugin to the host. core/plugin and core/plugin/host
// are above it, nothing is below. Where the system has no memory that can be
// sealed, every function fails with errors.ErrUnsupported.
package shm
