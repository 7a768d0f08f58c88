//go:build !unix

package plugin

// protectStdout does nothing, because this platform cannot duplicate descriptors. A
// plugin must not print to standard output before the handshake.
func protectStdout() error { return nil }
