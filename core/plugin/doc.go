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
// process may be killed at any time. Calls are canceled through their context. If a
// codec panics, only the chunk being processed fails. If a driver panics, the process
// exits and the host reports the panic.
//
// # Programs with built-in plugins
//
// A program that runs its built-in drivers and filters in separate processes calls
// [Main] first in main (or in TestMain) and passes the result to core/plugin/host,
// which executes the running program again. Without Main the host never executes the
// program, so a program that embeds this module cannot start itself by accident.
//
// Authors implement the interfaces in core/zmap/driver and core/codec/driver. Package
// core/plugin/host implements the host side of the protocol. The protocol definition in
// proto/nczplugin/v1 is for authors in other languages.
package plugin
