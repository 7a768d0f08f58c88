//go:build amd64 || arm64

package sandbox

import "golang.org/x/sys/unix"

// needed returns the numbers of the system calls that a filter plugin may make. The rules of
// program also check the arguments of some of these calls.
func needed(p *Policy) []uint32 {
	list := append(baseCalls[:len(baseCalls):len(baseCalls)], legacyNeeded[:]...)
	if p.MayExec {
		list = append(list, unix.SYS_EXECVE)
	} else {
		list = append(list, unix.SYS_SECCOMP) // Seal uses the call
	}
	if len(p.Write) > 0 {
		list = append(list, writeCalls[:]...)
	}
	return list
}

// baseCalls lists the calls of Go and Rust runtimes (with musl or the GNU library), of
// a gRPC server on a Unix socket, and of codecs.
var baseCalls = [...]uint32{
	// Memory.
	unix.SYS_BRK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MEMBARRIER,
	// Threads, signals and exit.
	unix.SYS_CLONE, unix.SYS_FUTEX, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_GETCPU, unix.SYS_PRCTL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// Time.
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_SETITIMER,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	// Identity, limits and random numbers.
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_UNAME, unix.SYS_SYSINFO,
	unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM, unix.SYS_GETCWD, unix.SYS_UMASK,
	// Open descriptors.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_LSEEK,
	unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_IOCTL, unix.SYS_FSTAT, unix.SYS_PIPE2, unix.SYS_EVENTFD2,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
	// Files in the private directory and granted files, which Landlock restricts.
	unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_FADVISE64,
	unix.SYS_UNLINKAT, unix.SYS_MKDIRAT,
	// Sockets, which socketRules restricts.
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
}

// writeCalls lists the additional calls of a filter plugin that may write to granted files.
var writeCalls = [...]uint32{
	unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FLOCK, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE,
	unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_UTIMENSAT, unix.SYS_FCHMOD,
}
