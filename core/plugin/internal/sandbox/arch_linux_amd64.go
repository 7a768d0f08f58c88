package sandbox

import "golang.org/x/sys/unix"

const (
	arch        = unix.AUDIT_ARCH_X86_64
	lastNumber  = unix.SYS_RSEQ_SLICE_YIELD
	legacyOpen  = unix.SYS_OPEN
	legacyCreat = unix.SYS_CREAT
)

// legacy lists forbidden calls that exist only on older architectures.
var legacy = [...]uint32{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_MKNOD, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_INOTIFY_INIT,
	unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT,
}

// legacyNeeded lists allowed calls that exist only on older architectures. musl uses
// many of them.
var legacyNeeded = [...]uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_UNLINK, unix.SYS_MKDIR, unix.SYS_RMDIR,
	unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_PIPE, unix.SYS_DUP2,
	unix.SYS_ARCH_PRCTL, unix.SYS_TIME,
}
