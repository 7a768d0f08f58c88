//go:build !unix

package plugin

// protectStdout does nothing where descriptors cannot be copied this way: a
// plugin must not print there before the handshake.
func protectStdout() error { return nil }
