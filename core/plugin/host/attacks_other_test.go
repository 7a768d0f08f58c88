//go:build !linux

package host_test

// attempt performs no attack, because this system has no sandbox.
func attempt(string, string) string { return "no attacks on this system" }

func supervised() {}

func child() string { return "no attacks on this system" }

func allocate(int) string { return "no attacks on this system" }
