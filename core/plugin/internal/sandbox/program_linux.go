//go:build amd64 || arm64

package sandbox

import "golang.org/x/sys/unix"

// program returns the filter of a process with that number. It refuses all that
// reaches other processes, the machine's configuration, files that Landlock does
// not see, or memory that no limit counts. With p.AllowList it also takes every
// call for absent that a filter does not need.
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
		f.refuse(unix.ENOSYS, unix.SYS_EXECVEAT) // which nobody judges
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

// forbidden is what no plugin needs, on all architectures.
var forbidden = [...]uint32{
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_GET_ROBUST_LIST,
	unix.SYS_SETPGID, unix.SYS_SETSID, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
	// Namespaces, mounts, roots.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	// Ways around the filter and the rules.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// Memory that lives outside processes, and meeting places without files.
	unix.SYS_MEMFD_SECRET, unix.SYS_MAP_SHADOW_STACK, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// Attributes of files, by path or descriptor: Landlock does not see them.
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_FSETXATTR,
	unix.SYS_MKNODAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FREMOVEXATTR, unix.SYS_FILE_SETATTR,
	// What happens in directories, and what is mounted where.
	unix.SYS_INOTIFY_INIT1, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	// The machine, and what there is a number of for all processes together.
	unix.SYS_IO_SETUP, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
}

// The bits of clone that begin a namespace, and those of mmap.
const (
	newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	sharedAnon   = unix.MAP_SHARED | unix.MAP_ANONYMOUS
)

// special are the bits of a file's mode with which it is run as its owner. Files
// cannot be made with them either: some kernels leave them when the file grows.
const special = unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX

// fileRules refuse what Landlock does not judge. A descriptor that is opened
// with access mode 3, for neither reading nor writing, needs no right of
// Landlock's, yet is enough to change a file's attributes. So a process that may
// write, and hence change the mode and the times of what it opened, cannot open
// so: openat2, which keeps its flags in memory where a filter cannot see them,
// does not exist for it. Built-in drivers that only read keep openat2, which
// makes them faster; they can change nothing through a descriptor.
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
	f.when(unix.SYS_UTIMENSAT, func(b *block) { b.refusePointer(1, unix.EPERM) }) // only of what is open
	f.when(unix.SYS_FCHMOD, func(b *block) { b.refuseAny(1, unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX, unix.EPERM) })
}

// opening judges the flags with which a file is opened, an argument, and its mode,
// which is the next one.
func (b *block) opening(flags int) {
	b.refuseIf(flags, unix.O_ACCMODE, unix.O_ACCMODE, unix.EPERM)
	b.refuseAny(flags+1, special, unix.EPERM)
}

// requests are the ioctl requests that exist: about terminals, pipes and sockets,
// and with a network about its interfaces. All others, such as those that set the
// attributes of files, are refused.
var requests = [...]uint32{
	unix.TCGETS, unix.TCGETS2, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCINQ, unix.TIOCOUTQ,
	0x5421 /* FIONBIO */, 0x5450 /* FIONCLEX */, 0x5451 /* FIOCLEX */, unix.FS_IOC_GETFLAGS, unix.FICLONE, unix.FICLONERANGE,
}

var interfaceRequests = [...]uint32{
	unix.SIOCGIFNAME, unix.SIOCGIFCONF, unix.SIOCGIFFLAGS, unix.SIOCGIFADDR, unix.SIOCGIFBRDADDR, unix.SIOCGIFNETMASK, unix.SIOCGIFMTU, unix.SIOCGIFHWADDR, unix.SIOCGIFINDEX,
}

// commands are the fcntl commands that exist: about descriptors, locks and seals.
// Others have the kernel send signals to somebody, watch a directory, or keep
// other processes waiting that open a file (leases), which takes no right of
// Landlock's.
var commands = [...]uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_DUPFD_QUERY, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GETOWN,
	unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW,
	unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS,
}

// processRules keep a process one process: threads only, signals only to
// itself, and its parent-death signal as it is.
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
	f.when(unix.SYS_SECCOMP, func(b *block) { // or it could overrule who judges its calls to listen
		b.refuseAny(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, unix.EPERM)
	})
}

// memoryRules refuse memory that the limit on data does not count. What was
// written to and then made read-only is not counted either; the loaders of
// others' programs need that, ours are loaded when the rules come.
func memoryRules(f *filter, loads bool) {
	if !loads {
		f.refuse(unix.EPERM, unix.SYS_PKEY_MPROTECT)
		f.when(unix.SYS_MPROTECT, func(b *block) { b.refuseUnless(2, unix.PROT_WRITE, unix.EPERM, unix.PROT_WRITE) })
	}
	f.when(unix.SYS_MMAP, func(b *block) {
		b.refuseIf(3, sharedAnon, sharedAnon, unix.EPERM)
		b.refuseAny(3, unix.MAP_GROWSDOWN|unix.MAP_HUGETLB, unix.EPERM)
	})
}

// kindOfSocket masks the flags out of a socket's type.
const kindOfSocket = 0xf

// socketRules allow streams between Unix sockets, and with network TCP and
// datagrams. Without it nothing may be connected or addressed: a Unix socket
// can then only be listened on.
func socketRules(f *filter, network bool) {
	f.when(unix.SYS_SOCKETPAIR, func(b *block) {
		b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX)
		b.refuseUnless(1, kindOfSocket, unix.EACCES, unix.SOCK_STREAM)
	})
	if !network {
		f.refuse(unix.EACCES, unix.SYS_CONNECT)
		f.when(unix.SYS_SENDTO, func(b *block) { b.refusePointer(4, unix.EACCES) })
		f.when(unix.SYS_SOCKET, func(b *block) {
			b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX)
			b.refuseUnless(1, kindOfSocket, unix.EACCES, unix.SOCK_STREAM)
		})
		return
	}
	// TCP Fast Open connects where Landlock does not look.
	f.when(unix.SYS_SENDTO, func(b *block) { b.refuseAny(3, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SENDMSG, func(b *block) { b.refuseAny(2, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SENDMMSG, func(b *block) { b.refuseAny(3, unix.MSG_FASTOPEN, unix.EACCES) })
	f.when(unix.SYS_SETSOCKOPT, func(b *block) {
		b.given(1, unix.IPPROTO_TCP, func(b *block) { b.refuseIf(2, ^uint32(0), unix.TCP_FASTOPEN_CONNECT, unix.EACCES) })
	})
	f.when(unix.SYS_SOCKET, func(b *block) {
		b.refuseUnless(0, ^uint32(0), unix.EACCES, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)
		b.refuseUnless(1, kindOfSocket, unix.EACCES, unix.SOCK_STREAM, unix.SOCK_DGRAM)
		b.given(0, unix.AF_UNIX, func(b *block) { b.refuseUnless(1, kindOfSocket, unix.EACCES, unix.SOCK_STREAM) })
		// Multipath TCP escapes Landlock's rules of ports.
		b.refuseUnless(2, ^uint32(0), unix.EPROTONOSUPPORT, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)
	})
}
