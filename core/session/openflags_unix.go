//go:build unix

package session

import "syscall"

// openFlags are flags with which opening a link fails and opening a pipe does not block.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
