//go:build !linux

package killpoint

// Main does nothing on this system, which does not support [Run].
func Main() {}
