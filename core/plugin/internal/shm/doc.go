// Package shm implements the memory and the channel that host and plugin share at level
// 1 of the data plane. The memory consists of sealed segments. The channel is a pair of
// sockets over which the plugin sends file descriptors to the host. Its end of file
// means that the other side has exited. Packages core/plugin and core/plugin/host use
// package shm. On systems without sealable memory, every function that returns an error
// fails with errors.ErrUnsupported.
package shm
