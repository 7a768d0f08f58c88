//go:build !linux

package killpoint

// Main does nothing on this system, which has no [Run].
func Main() {}
