//go:build !unix

package plugin

// protectStdout does nothing, because descriptors cannot be duplicated here. A plugin
// must not print to standard output before the handshake.
func protectStdout() error { return nil }
