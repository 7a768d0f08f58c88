//go:build amd64 || arm64

package sandbox

import "golang.org/x/sys/unix"

// program returns the seccomp filter of the process pid. It refuses calls that affect
// other processes or the configuration of the machine, access files in ways that
// Landlock does not restrict, or use memory that no limit counts. If p.AllowList is
// set, it also refuses every call that filter plugins do not need.
func program(p *Policy, pid int) filter {
	var f filter
	f.prologue()
	if p.AllowList {
		f.only(needed(p))
	}
	f.refuse(unix.EPERM, forbidden[:]...)
	f.refuse(unix.EPERM, legacy[:]...)
	f.refuse(unix.ENOSYS, unix.SYS_CLONE3, unix.SYS_MEMFD_CREATE, unix.SYS_PIDFD_OPEN)
	if p.MayExec {
		f.refuse(unix.ENOSYS, unix.SYS_EXECVEAT) // Supervise does not supervise this call
	} else {
		f.refuse(unix.EPERM, unix.SYS_EXECVE, unix.SYS_EXECVEAT)
	}
	fileRules(&f, p)
	processRules(&f, p, uint32(pid))
	memoryRules(&f, p.MayExec)
	socketRules(&f, p.Network)
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// forbidden lists the calls that no plugin needs, on all architectures.
var forbidden = [...]uint32{
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_GET_ROBUST_LIST,
	unix.SYS_SETPGID, unix.SYS_SETSID, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
	// Namespaces, mounts, roots.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	// Calls that could bypass the filter and Landlock.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// Memory outside processes, and communication without files.
	unix.SYS_MEMFD_SECRET, unix.SYS_MAP_SHADOW_STACK, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// Attributes of files, by path or descriptor, which Landlock does not restrict.
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_FSETXATTR,
	unix.SYS_MKNODAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FREMOVEXATTR, unix.SYS_FILE_SETATTR,
	// Events in directories, and mount information.
	unix.SYS_INOTIFY_INIT1, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	// The machine as a whole, and resources that are limited system-wide.
	unix.SYS_IO_SETUP, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
}

// Flags of clone that create a namespace, and flags of mmap.
const (
	newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	sharedAnon   = unix.MAP_SHARED | unix.MAP_ANONYMOUS
)

// special is the set of the setuid, setgid and sticky mode bits. A process must not
// create a file with these bits, because some kernels keep them when the file is
// written.
const special = unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX

// fileRules refuses file operations that Landlock does not restrict. A file can be
// opened without a Landlock right with access mode 3, neither for reading nor for
// writing, and the descriptor suffices to change the file's attributes. Access mode 3
// is therefore refused. A process that may write, or that runs a third-party plugin,
// cannot use openat2 either, because a filter cannot read its flags. Other processes
// may use openat2, which is faster, because they cannot change attributes through a
// descriptor.
func fileRules(f *filter, p *Policy) {
	f.when(unix.SYS_OPENAT, func(b *block) { b.opening(2) })
	if legacyOpen != 0 {
		f.when(legacyOpen, func(b *block) { b.opening(1) })
		f.when(legacyCreat, func(b *block) { b.refuseAny(1, special, unix.EPERM) })
	}
	if p.MayExec || len(p.Write) > 0 {
		f.refuse(unix.ENOSYS, unix.SYS_OPENAT2)
	}
	if len(p.Write) == 0 {
		f.refuse(unix.EPERM, unix.SYS_UTIMENSAT, unix.SYS_FCHMOD)
		return
	}
	f.when(unix.SYS_UTIMENSAT, func(b *block) { b.refusePointer(1, unix.EPERM) }) // the call may only change an open descriptor
	f.when(unix.SYS_FCHMOD, func(b *block) { b.refuseAny(1, unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX, unix.EPERM) })
}

// opening adds the rules for an open call. flags is the number of the argument that holds
// the flags of the call. The next argument holds the mode.
func (b *block) opening(flags int) {
	b.refuseIf(flags, unix.O_ACCMODE, unix.O_ACCMODE, unix.EPERM)
	b.refuseAny(flags+1, special, unix.EPERM)
}

// requests lists the permitted ioctl requests. Other requests could change file
// attributes, for example. A process with network access may also use
// interfaceRequests.
var requests = [...]uint32{
	unix.TCGETS, unix.TCGETS2, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCINQ, unix.TIOCOUTQ,
	0x5421 /* FIONBIO */, 0x5450 /* FIONCLEX */, 0x5451 /* FIOCLEX */, unix.FS_IOC_GETFLAGS, unix.FICLONE, unix.FICLONERANGE,
}

// interfaceRequests lists the ioctl requests that read network interfaces.
var interfaceRequests = [...]uint32{
	unix.SIOCGIFNAME, unix.SIOCGIFCONF, unix.SIOCGIFFLAGS, unix.SIOCGIFADDR, unix.SIOCGIFBRDADDR, unix.SIOCGIFNETMASK, unix.SIOCGIFMTU, unix.SIOCGIFHWADDR, unix.SIOCGIFINDEX,
}

// commands lists the permitted fcntl commands. Without a Landlock right, other commands
// could send signals, watch a directory, or block processes that open a file (leases).
var commands = [...]uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_DUPFD_QUERY, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GETOWN,
	unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW,
	unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS,
}

// processRules prevents a process from creating other processes, from affecting them
// with signals, limits, fcntl or ioctl, and from changing its parent-death signal.
func processRules(f *filter, p *Policy, pid uint32) {
	f.when(unix.SYS_CLONE, func(b *block) {
		b.refuseUnless(0, unix.CLONE_THREAD, unix.EPERM, unix.CLONE_THREAD)
		b.refuseAny(0, newNamespace, unix.EPERM)
	})
	for _, nr := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		f.when(nr, func(b *block) { b.refuseUnless(0, ^uint32(0), unix.EPERM, pid) })
	}
	for _, nr := range []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY} {
		f.when(nr, func(b *block) { b.refuseUnless(0, ^uint32(0), unix.EPERM, 0, pid) })
	}
	f.when(unix.SYS_TKILL, func(b *block) { b.refuseUnless(0, ^uint32(0), unix.EPERM, pid) })
	f.when(unix.SYS_PRCTL, func(b *block) { b.refuseIf(0, ^uint32(0), unix.PR_SET_PDEATHSIG, unix.EPERM) })
	f.when(unix.SYS_FCNTL, func(b *block) { b.refuseUnless(1, ^uint32(0), unix.EPERM, commands[:]...) })
	f.when(unix.SYS_IOCTL, func(b *block) {
		if p.Network {
			b.allow(1, interfaceRequests[:]...)
		}
		b.refuseUnless(1, ^uint32(0), unix.EPERM, requests[:]...)
	})
	f.when(unix.SYS_SECCOMP, func(b *block) { // a process must not replace the supervisor of its calls
		b.refuseAny(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, unix.EPERM)
	})
}

// memoryRules refuses memory that RLIMIT_DATA does not count. This includes memory that
// was written and then made read-only. If thirdParty is set, read-only memory is permitted,
// because the loaders of programs need it. Built-in plugins are already loaded.
func memoryRules(f *filter, thirdParty bool) {
	if !thirdParty {
		f.refuse(unix.EPERM, unix.SYS_PKEY_MPROTECT)
		f.when(unix.SYS_MPROTECT, func(b *block) { b.refuseUnless(2, unix.PROT_WRITE, unix.EPERM, unix.PROT_WRITE) })
	}
	f.when(unix.SYS_MMAP, func(b *block) {
		b.refuseIf(3, sharedAnon, sharedAnon, unix.EPERM)
		b.refuseAny(3, unix.MAP_GROWSDOWN|unix.MAP_HUGETLB, unix.EPERM)
	})
}

// socketTypeMask removes the flags from the type argument of a socket call.
const socketTypeMask = 0xf

// socketRules permits Unix stream sockets and, with network, TCP and UDP sockets.
// Without network, a process can listen on a Unix socket, but it cannot connect to an
// address or send to one.
func socketRules(f *filter, network bool) {
	f.when(unix.SYS_SOCKETPAIR, func(b *block) {
		b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX)
		b.refuseUnless(1, socketTypeMask, unix.EACCES, unix.SOCK_STREAM)
	})
	if !network {
		f.refuse(unix.EACCES, unix.SYS_CONNECT)
		f.when(unix.SYS_SENDTO, func(b *block) { b.refusePointer(4, unix.EACCES) })
		f.when(unix.SYS_SOCKET, func(b *block) {
			b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX)
			b.refuseUnless(1, socketTypeMask, unix.EACCES, unix.SOCK_STREAM)
		})
		return
	}
	// Landlock does not check connections with TCP Fast Open.
	f.when(unix.SYS_SENDTO, func(b *block) { b.refuseAny(3, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SENDMSG, func(b *block) { b.refuseAny(2, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SENDMMSG, func(b *block) { b.refuseAny(3, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SETSOCKOPT, func(b *block) {
		b.given(1, unix.IPPROTO_TCP, func(b *block) { b.refuseIf(2, ^uint32(0), unix.TCP_FASTOPEN_CONNECT, unix.EACCES) })
	})
	f.when(unix.SYS_SOCKET, func(b *block) {
		b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)
		b.refuseUnless(1, socketTypeMask, unix.EACCES, unix.SOCK_STREAM, unix.SOCK_DGRAM)
		b.given(0, unix.AF_UNIX, func(b *block) { b.refuseUnless(1, socketTypeMask, unix.EACCES, unix.SOCK_STREAM) })
		// Landlock's port rules do not cover Multipath TCP.
		b.refuseUnless(2, ^uint32(0), unix.EPROTONOSUPPORT, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)
	})
}
