// Package plugin is the SDK for authors of nczarr plugins. A plugin is a main package
// that serves drivers or filters, each implemented in a package of its own:
//
//	func main() {
//		plugin.Serve(plugin.Driver(kv.New()), plugin.Filter(xor.New()))
//	}
//
// The executable is named nczarr-driver-NAME or nczarr-filter-NAME and is installed
// where the host looks for plugins. The driver and filter packages can also be used in
// process, without changes.
//
// # Rules for plugins
//
// Standard output is reserved for the handshake. Serve redirects what a driver prints
// there, but nothing may be printed before Serve is called. Logs go to standard error,
// preferably through [Logger]. A driver must not rely on being closed, because the
// process may be killed at any time. Calls are cancelled through their context. A panic
// in a codec fails one chunk. A panic in a driver ends the process, and the host
// reports it.
//
// # Programs that serve themselves
//
// A program that runs its built-in drivers and filters in separate processes calls
// [Main] first in main (or in TestMain) and passes the result to core/plugin/host,
// which executes the running program again. Without Main the host never executes the
// program, so a program that embeds this module cannot start itself by accident.
//
// Authors implement the interfaces in core/zmap/driver and core/codec/driver. Package
// core/plugin/host is the other side of the protocol. The protocol definition is in
// proto/nczplugin/v1, for authors in other languages.
package plugin
