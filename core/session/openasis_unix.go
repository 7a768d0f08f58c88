//go:build unix

package session

import "syscall"

// openAsIs makes opening a link fail, and opening a pipe return at once.
const openAsIs = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
