// Package host finds, starts and supervises plugin processes, and gives their
// drivers and filters as if they were in process.
//
//	self := plugin.Main(builtin)           // first in main
//	h, err := host.New(&host.Options{Self: self})
//	...
//	defer h.Close(ctx)
//	opener, err := h.Driver("file")
//
// One process serves one (plugin, grant set): all filters of a plugin share a
// process; a driver has one for each grant set that its stores need, which at
// level 0 is its name and, for drivers of local paths, whether the store is
// opened for reading or for writing. Processes start when they are first
// needed, several at once, and live until Close or their death.
//
// # What can go wrong, and what happens
//
// A process that dies, hangs or breaks the protocol gives ncerr.ErrPlugin with
// the plugin's name, its exit status and its last lines of standard error.
// Calls that may be repeated are repeated once on a fresh process; a write
// whose outcome is unknown is ncerr.ErrAmbiguous; a store with writes that
// were not flushed has failed for good. Restarts wait longer and longer, and
// after five deaths within a minute the plugin is refused for the rest of it.
// A call without any answer for Options.CallTimeout kills the process and is
// not repeated: it would only wait as long again.
//
// A Put or Delete that was sent is waited for, although its context has ended:
// it returns when the plugin has answered or is dead, so that it cannot undo
// what a later call does. The plugin is told to cancel a Put at level 1; at
// level 0 that is not possible. The error is then the context's, or
// ncerr.ErrAmbiguous when the process did not answer.
//
// Everything that a plugin sends is checked against what was asked. Bytes go
// into the caller's memory only as far as the caller allows.
//
// Above is whatever needs a registry (core/nczarr takes one); below are
// core/plugin, core/zmap/driver and core/codec/driver. Only this package and
// its neighbours know go-plugin and gRPC.
package host
