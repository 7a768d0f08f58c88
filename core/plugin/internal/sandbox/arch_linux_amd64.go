package sandbox

import "golang.org/x/sys/unix"

const (
	arch       = unix.AUDIT_ARCH_X86_64
	lastNumber = unix.SYS_RSEQ_SLICE_YIELD
)

// legacy has the calls that only older architectures have.
var legacy = [...]uint32{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT,
}
