//go:build unix

package session

import "syscall"

// openFlags are flags that make opening a link fail and opening a pipe return at once.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
