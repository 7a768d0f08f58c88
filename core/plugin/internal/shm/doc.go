// Package shm implements the memory and the channel that host and plugin share at level
// 1 of the data plane. The memory consists of sealed segments. The channel is a pair of
// sockets that carries lent descriptors from the plugin to the host; its end of file
// tells each side that the other is gone. Packages core/plugin and core/plugin/host use
// it. On systems without sealable memory, every function fails with
// errors.ErrUnsupported.
package shm
