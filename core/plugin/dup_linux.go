package plugin

import "golang.org/x/sys/unix"

// dup2 makes descriptor to a copy of from. It uses dup3, because some Linux ports lack
// dup2.
func dup2(from, to int) error { return unix.Dup3(from, to, 0) }
