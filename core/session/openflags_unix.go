//go:build unix

package session

import "syscall"

// openFlags makes os.OpenFile fail for a link and return without blocking for a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
