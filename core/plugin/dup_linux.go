package plugin

import "golang.org/x/sys/unix"

// dup2 makes newfd a copy of oldfd. It uses dup3, because some Linux ports lack dup2.
func dup2(oldfd, newfd int) error { return unix.Dup3(oldfd, newfd, 0) }
