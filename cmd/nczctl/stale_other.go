//go:build !linux

package main

// stagePrefix begins the names of what is in the making.
const stagePrefix = ".nczctl-"

// stageOwner names nobody: here it cannot be found out who is still alive.
func stageOwner() string { return "0.0.0" }

func sweepStaged(string, string) {}
