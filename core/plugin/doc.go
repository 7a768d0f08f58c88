// Package plugin is the SDK for authors of nczarr plugins. A plugin is a
// driver or a filter in a package of its own, and a main that serves it:
//
//	func main() {
//		plugin.Serve(plugin.Driver(kv.New()), plugin.Filter(xor.New()))
//	}
//
// The executable is named nczarr-driver-NAME or nczarr-filter-NAME and put
// where the host looks for plugins. The same package can be used in process:
// there is no second implementation.
//
// # Habits of a plugin
//
// Standard output belongs to the handshake. Serve keeps what a driver prints
// there away from it, but nothing may be printed before Serve is called. Logs
// go to standard error, best through [Logger]. A driver must not rely on
// being closed: the process may be killed at any instruction. Calls are
// cancelled through their context. A panic in a codec fails one chunk; a panic
// in a driver ends the process, and the host says so.
//
// # Programs that serve themselves
//
// A program that wants to run its built-in drivers and filters in processes of
// their own calls [Main] first in main (or in TestMain) and gives the result
// to core/plugin/host, which executes the running program again. Without Main
// nothing is ever executed, so an embedder cannot start itself by accident.
//
// Below are core/zmap/driver and core/codec/driver, the interfaces of authors;
// core/plugin/host is the other end. The protocol is published in
// proto/nczplugin/v1 for authors in other languages.
package plugin
