// Package host finds, starts and supervises plugin processes. The drivers and filters
// that it returns implement the same interfaces as drivers and filters in process.
//
//	self := plugin.Main(builtin)           // first in main
//	h, err := host.New(&host.Options{Self: self})
//	...
//	defer h.Close(ctx)
//	opener, err := h.Driver("file")
//
// Each process serves one plugin with one set of grants. All filters of a plugin share
// a process. A driver has one process for each set of grants that its stores need. For
// drivers of local paths, the set depends on the location of the store and on whether
// it is opened for reading or for writing. Processes start concurrently when they are
// first needed, and run until Close or until they die.
//
// # Failures
//
// If a process dies, hangs or violates the protocol, its calls fail with ncerr.ErrPlugin.
// The error contains the plugin's name, its exit status and the last lines of its
// standard error. The host repeats a call once in a new process if the call is safe to
// repeat. A write whose outcome is unknown fails with ncerr.ErrAmbiguous. A store that
// loses unflushed writes fails permanently. The delay before a restart grows with each
// death, and after five deaths within a minute the plugin is refused for the rest of
// that minute. If a call receives no answer for Options.CallTimeout, the process is
// killed and the call is not repeated. A put that kills the process twice does not
// affect the other puts of the same PutMany.
//
// Once Put or Delete has sent its request, it returns only when the plugin has answered
// or is dead, even if its context is done. A late write therefore cannot overwrite the
// result of a later call. When the context is done, the host cancels a Put at protocol
// level 1; level 0 has no message to cancel a Put. The error is then the context's, or
// ncerr.ErrAmbiguous if the process did not answer.
//
// The host checks everything that a plugin sends against the request. It never stores
// data of a plugin outside the buffers that the caller passed.
//
// The host and a plugin exchange values at one of two levels of the data plane. At
// level 0, values are sent in gRPC messages. At level 1, which only Linux supports,
// they are passed in shared memory: each value occupies a region of one of two
// segments, one for requests and one for responses. A plugin at level 1 may also lend a
// file to the host: it sends the open file through a socket, the channel, and the host
// reads the file itself. The lifeline of a plugin is its standard input. At the end of
// that file, the host has exited, and the plugin exits too.
//
// A Host implements the interface Registry of core/registry. This package builds on
// core/plugin, core/registry, core/zmap/driver and core/codec/driver. Only core/plugin and
// the packages below it use go-plugin and gRPC.
package host
