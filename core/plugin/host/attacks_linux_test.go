package host_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attacks contains operations of a malicious plugin, by name. Each returns nil if it
// succeeds. arg is the target, such as a path, an address or a process id.
var attacks = map[string]func(arg string) error{
	"read a file":                    func(path string) error { _, err := os.ReadFile(path); return err },
	"create a file":                  func(path string) error { return os.WriteFile(path+".made", nil, 0o600) },
	"list a directory":               func(path string) error { _, err := os.ReadDir(filepath.Dir(path)); return err },
	"truncate a file":                func(path string) error { return os.Truncate(path+".full", 0) },
	"make a file world-writable":     func(path string) error { return os.Chmod(path, 0o777) },
	"remove a file":                  func(path string) error { return os.Remove(path + ".doomed") },
	"read through a link":            func(path string) error { _, err := os.ReadFile(path); return err },
	"create a link":                  func(path string) error { return os.Symlink("/etc", path+".link") },
	"write to its private directory": func(string) error { return os.WriteFile(filepath.Join(os.TempDir(), "x"), []byte("x"), 0o600) },

	"connect by TCP":                func(addr string) error { return dial("tcp", addr) },
	"connect to a Unix socket":      func(path string) error { return dial("unix", path) },
	"connect to an abstract socket": func(name string) error { return dial("unix", "@"+name) },
	"listen on TCP": func(string) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		return errors.Join(err, closeAny(l))
	},
	"send a datagram":               func(addr string) error { return dial("udp", addr) },
	"open a netlink socket":         func(string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) },
	"open a raw socket":             func(string) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"create a datagram socket pair": func(string) error { return pair(unix.SOCK_DGRAM) },
	"query network interfaces": func(string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		first, err := unix.NewIfreq("")
		if err == nil {
			first.SetUint32(1)
			err = unix.IoctlIfreq(fds[0], unix.SIOCGIFNAME, first)
		}
		return errors.Join(err, closeFD(fds[0]), closeFD(fds[1]))
	},
	"use an inherited file": func(fd string) error {
		n, _ := strconv.Atoi(fd)
		_, err := unix.Pread(n, make([]byte, 1), 0)
		return err
	},
	"read the environment": func(name string) error { return errUnless(os.Getenv(name) != "") },
	"execute a program":    func(string) error { return exec.Command("/bin/true").Run() },
	"fork":                 func(string) error { return fork(uintptr(unix.SIGCHLD)) },
	"fork into namespaces": func(string) error { return fork(uintptr(unix.SIGCHLD) | unix.CLONE_NEWUTS) },
	"trace a process":      func(pid string) error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, number(pid), 0, 0) },
	"open a process's memory": func(pid string) error {
		f, err := os.OpenFile("/proc/"+pid+"/mem", os.O_RDWR, 0)
		return errors.Join(err, closeAny(f))
	},
	"read a process's memory":         readMemory,
	"signal a process":                func(pid string) error { return unix.Kill(int(number(pid)), 0) },
	"signal by descriptor":            signalByDescriptor,
	"make the kernel send a signal":   func(pid string) error { _, err := unix.FcntlInt(0, unix.F_SETOWN, int(number(pid))); return err },
	"lower the priority of a process": func(pid string) error { return unix.Setpriority(unix.PRIO_PROCESS, int(number(pid)), 1) },
	"set a limit of a process":        func(pid string) error { return unix.Prlimit(int(number(pid)), unix.RLIMIT_CORE, nil, new(unix.Rlimit)) },
	"survive the host":                func(string) error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) },
	"leave the process group":         func(string) error { return unix.Setpgid(0, 0) },
	"unshare":                         func(string) error { return onThread(func() error { return unix.Unshare(unix.CLONE_FS) }) },
	"enter a namespace":               enterNamespace,
	"mount":                           func(string) error { fd, err := unix.Fsopen("tmpfs", 0); return errors.Join(err, closeFD(fd)) },
	"use io_uring":                    ring,
	"use asynchronous I/O": func(string) error {
		var queue uintptr
		if err := call(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&queue))); err != nil {
			return err
		}
		return call(unix.SYS_IO_DESTROY, queue)
	},
	"allocate shared memory":    func(string) error { return mapMemory(unix.MAP_SHARED) },
	"map a growing stack":       func(string) error { return mapMemory(unix.MAP_PRIVATE | unix.MAP_GROWSDOWN) },
	"allocate uncounted memory": func(string) error { return allocateUncounted() },
	"reserve address space": func(string) error {
		mem, err := unix.Mmap(-1, 0, 1<<40, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err != nil {
			return errUnless(!errors.Is(err, unix.ENOMEM))
		}
		return unix.Munmap(mem)
	},
	"create a memory file":     func(string) error { fd, err := unix.MemfdCreate("x", 0); return errors.Join(err, closeFD(fd)) },
	"allocate System V memory": func(string) error { return sysvMemory() },
	"raise its limits":         func(string) error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
	"replace itself":           func(string) error { return ignoreNotExist(unix.Exec("/nowhere", nil, nil)) },
	"replace itself from a thread": func(string) error {
		return onSecondThread(func() error { return ignoreNotExist(unix.Exec("/nowhere", nil, nil)) })
	},
	"replace itself with execveat": func(string) error {
		path := []byte("/nowhere\x00")
		at := unix.AT_FDCWD
		return ignoreNotExist(call(unix.SYS_EXECVEAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), 0, 0, 0))
	},
	"change its root": func(string) error { return onThread(func() error { return unix.Chroot("/") }) },

	"open with access mode 3": func(path string) error { return withAccessMode3(path, func(int) error { return nil }) },
	"open with access mode 3 by openat2": func(path string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_ACCMODE | unix.O_CLOEXEC})
		return errors.Join(err, closeFD(fd))
	},
	"change the mode by descriptor": func(path string) error {
		return withAccessMode3(path, func(fd int) error { return unix.Fchmod(fd, 0o600) })
	},
	"change the owner by descriptor": func(path string) error {
		return withAccessMode3(path, func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) })
	},
	"set an attribute by descriptor": func(path string) error {
		return withAccessMode3(path, func(fd int) error { return unix.Fsetxattr(fd, "user.nczarr", []byte("x"), 0) })
	},
	"remove an attribute by descriptor": func(path string) error {
		return withAccessMode3(path, func(fd int) error { return missing(unix.Fremovexattr(fd, "user.nothing")) })
	},
	"set flags by descriptor": func(path string) error { return withAccessMode3(path, setFlags) },
	"set times":               func(path string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, path, make([]unix.Timespec, 2), 0) },
	"change the mode of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return unix.Fchmod(fd, 0o600) })
	},
	"set times of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0) })
	},
	"change the owner of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) })
	},
	"set an attribute of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return unix.Fsetxattr(fd, "user.nczarr", []byte("x"), 0) })
	},
	"remove an attribute of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return missing(unix.Fremovexattr(fd, "user.nothing")) })
	},
	"set flags of an open file": func(path string) error { return withReadDescriptor(path, setFlags) },
	"set the set-user-ID bit of an open file": func(path string) error {
		return withReadDescriptor(path, func(fd int) error { return unix.Fchmod(fd, 0o4700) })
	},
	"create a set-user-ID file": func(path string) error {
		fd, err := unix.Open(path+".run", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o4700)
		return errors.Join(err, closeFD(fd))
	},
	"create a set-user-ID file with mknod": func(path string) error { return unix.Mknod(path+".node", unix.S_IFREG|0o4700, 0) },
	"fill its directory": func(string) error {
		for i := range 1_001 {
			if err := os.Mkdir(filepath.Join(os.TempDir(), strconv.Itoa(i)), 0o300); err != nil {
				return err
			}
		}
		return nil
	},
	"hold capabilities to change files": func(string) error { return hasCapability(^uint32(1 << unix.CAP_DAC_READ_SEARCH)) },
	"watch a directory": func(path string) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_CREATE)
		}
		return errors.Join(err, closeFD(fd))
	},
	"watch an open directory": func(path string) error {
		return withReadDescriptor(filepath.Dir(path), func(fd int) error { return fcntl(fd, unix.F_NOTIFY, 4 /* DN_CREATE */) })
	},
	"take a lease on a file": func(path string) error {
		return withReadDescriptor(path+".full", func(fd int) error { return fcntl(fd, unix.F_SETLEASE, unix.F_WRLCK) })
	},
	"take a lease with access mode 3": func(path string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, path+".full", &unix.OpenHow{Flags: unix.O_ACCMODE | unix.O_CLOEXEC})
		if err != nil {
			return err
		}
		return errors.Join(fcntl(fd, unix.F_SETLEASE, unix.F_WRLCK), closeFD(fd))
	},
	"list the mounts": func(string) error {
		if err := call(unix.SYS_LISTMOUNT, 0, 0, 0, 0); !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		return nil // the arguments are invalid, but the call was permitted
	},
	"listen under an abstract name": func(string) error {
		l, err := net.Listen("unix", "@nczarr-attack-"+strconv.Itoa(os.Getpid()))
		return errors.Join(err, closeAny(l))
	},
	"listen on another Unix socket": func(string) error {
		l, err := net.Listen("unix", filepath.Join(os.TempDir(), "again"))
		return errors.Join(err, closeAny(l))
	},
	"listen on TCP without a port": func(string) error {
		return withSocket(unix.AF_INET, unix.SOCK_STREAM, func(fd int) error { return unix.Listen(fd, 1) })
	},
	"supervise its own system calls": func(string) error { return onThread(decideCalls) },
	"create a Unix datagram socket": func(string) error {
		return withSocket(unix.AF_UNIX, unix.SOCK_DGRAM, func(int) error { return nil })
	},
	"connect by TCP with sendto": func(addr string) error {
		return withTCPSocket(addr, func(fd int, to unix.Sockaddr) error { return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to) })
	},
	"connect by TCP with sendmsg": func(addr string) error {
		return withTCPSocket(addr, func(fd int, to unix.Sockaddr) error { return unix.Sendmsg(fd, []byte("x"), nil, to, unix.MSG_FASTOPEN) })
	},
	"connect by TCP with a socket option": func(addr string) error {
		return withTCPSocket(addr, func(fd int, to unix.Sockaddr) error {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
				return err
			}
			_ = unix.Connect(fd, to)
			_, err := unix.Write(fd, []byte("x"))
			return err
		})
	},
}

// openHoles contains attacks that the sandbox does not always prevent; see
// docs/explanation/security.md.
var openHoles = map[string]func(arg string) error{
	"stat a file": func(path string) error { _, err := os.Stat(path); return err },
	"read a link": func(path string) error { _, err := os.Readlink(path + ".elsewhere"); return err },
	"read an attribute": func(path string) error {
		_, err := unix.Getxattr(path, "user.nczarr", make([]byte, 8))
		return missing(err)
	},
	"keep a removed file": func(string) error {
		f, err := os.CreateTemp("", "x") // in its private directory
		if err != nil {
			return err
		}
		_, written := f.WriteString("this uses disk space without a name")
		return errors.Join(os.Remove(f.Name()), written, f.Close())
	},
	"receive datagrams": func(string) error {
		return withSocket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) })
	},
	"bind an abstract name": func(string) error {
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrUnix{Name: "@nczarr-hole-" + strconv.Itoa(os.Getpid())})
		})
	},
}

// missing returns nil if err means that an attribute does not exist, because the call
// was then permitted.
func missing(err error) error {
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// hasCapability returns nil if the process has any of the given capabilities.
func hasCapability(capabilities uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	return errUnless((data[0].Permitted|data[0].Effective)&capabilities != 0)
}

// withAccessMode3 calls f with a descriptor of path that is open neither for reading nor
// for writing.
func withAccessMode3(path string, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_ACCMODE|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), closeFD(fd))
}

// withReadDescriptor calls f with a descriptor of path that is open for reading.
func withReadDescriptor(path string, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), closeFD(fd))
}

// setFlags sets the flags of a file to their current value.
func setFlags(fd int) error {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err == nil || errors.Is(err, unix.ENOTTY) {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) { // not supported by this file system, but the call was permitted
		return nil
	}
	return err
}

// fcntl makes an fcntl call.
func fcntl(fd, cmd, arg int) error {
	_, err := unix.FcntlInt(uintptr(fd), cmd, arg)
	return err
}

func withSocket(domain, kind int, f func(fd int) error) error {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), closeFD(fd))
}

// withTCPSocket calls f with an unconnected TCP socket.
func withTCPSocket(addr string, f func(fd int, to unix.Sockaddr) error) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	return withSocket(unix.AF_INET, unix.SOCK_STREAM, func(fd int) error {
		return f(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	})
}

// decideCalls makes this process the supervisor of its own system calls. It could then
// permit calls that another supervisor would refuse.
func decideCalls() error {
	fd, err := superviseCalls()
	return errors.Join(err, closeFD(fd))
}

// supervised replaces this process with a host whose system calls have a supervisor.
// The kernel permits only one supervisor.
func supervised() {
	runtime.LockOSThread()
	fd, err := superviseCalls()
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0) // keep the notification descriptor open in the host
	}
	if err == nil {
		err = errors.Join(os.Setenv(zooEnv, "host"), unix.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	fmt.Println(err)
	os.Exit(1)
}

func superviseCalls() (int, error) {
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	prog := unix.SockFprog{Len: 1, Filter: &allow}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// child starts a process that continues to run, and returns its id or an error message.
func child() string {
	cmd := exec.Command("/bin/sleep", "600") // longer than TestChildren waits
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// attempt returns the result of an attack: "succeeded", "refused" or another error.
func attempt(name, arg string) string {
	attack, ok := attacks[name]
	if !ok {
		attack, ok = openHoles[name]
	}
	if !ok {
		return "no such attack"
	}
	err := attack(arg)
	switch {
	case err == nil:
		return "succeeded"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EFBIG), errors.Is(err, unix.EBADF):
		return "refused"
	}
	return err.Error()
}

func dial(network, addr string) error {
	c, err := net.Dial(network, addr)
	if err == nil && network == "udp" {
		_, err = c.Write([]byte("x"))
	}
	return errors.Join(err, closeAny(c))
}

// closeAny closes c unless it is nil. It always returns nil, so that attacks return only
// their own errors.
func closeAny(c any) error {
	switch c := c.(type) {
	case net.Listener:
		_ = c.Close()
	case net.Conn:
		_ = c.Close()
	case *os.File:
		_ = c.Close()
	}
	return nil
}

func closeFD(fd int) error {
	if fd > 2 {
		_ = unix.Close(fd)
	}
	return nil
}

func socket(domain, kind, protocol int) error {
	fd, err := unix.Socket(domain, kind, protocol)
	return errors.Join(err, closeFD(fd))
}

func pair(kind int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	return errors.Join(err, closeFD(fds[0]), closeFD(fds[1]))
}

// errUnless returns nil if succeeded is set, and fs.ErrPermission otherwise.
func errUnless(succeeded bool) error {
	if succeeded {
		return nil
	}
	return fs.ErrPermission
}

func number(text string) uintptr {
	n, _ := strconv.Atoi(text)
	return uintptr(n)
}

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// fork creates a process that exits immediately.
func fork(flags uintptr) error {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

func readMemory(pid string) error {
	buf := make([]byte, 1)
	local := []unix.Iovec{{Base: &buf[0], Len: 1}}
	_, err := unix.ProcessVMReadv(int(number(pid)), local, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) { // the address is not mapped, but the call was permitted
		return nil
	}
	return err
}

func signalByDescriptor(pid string) error {
	fd, err := unix.PidfdOpen(int(number(pid)), 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.PidfdSendSignal(fd, 0, nil, 0), closeFD(fd))
}

// onThread calls f on a thread that no other goroutine uses later.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// onSecondThread calls f on a thread that is not the first thread of the process.
func onSecondThread(f func() error) error {
	return onThread(func() error {
		if unix.Gettid() == os.Getpid() { // keep this thread locked while trying another one
			return onSecondThread(f)
		}
		return f()
	})
}

// ignoreNotExist returns nil if err means that a program does not exist, because
// executing it was then permitted.
func ignoreNotExist(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func enterNamespace(pid string) error {
	fd, err := unix.Open("/proc/"+pid+"/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(onThread(func() error { return unix.Setns(fd, unix.CLONE_NEWUTS) }), closeFD(fd))
}

func ring(string) error {
	var params [120]byte // size of struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return errno
	}
	return closeFD(int(fd))
}

func mapMemory(flags int) error {
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|flags)
	if err != nil {
		return err
	}
	return unix.Munmap(mem)
}

// allocateUncounted makes written memory read-only, so that RLIMIT_DATA does not count it.
func allocateUncounted() error {
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	mem[0] = 1
	return errors.Join(unix.Mprotect(mem, unix.PROT_READ), unix.Munmap(mem))
}

func sysvMemory() error {
	id, err := unix.SysvShmGet(0, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

// allocate allocates n MiB, writes to every page, and returns n as text.
func allocate(n int) string {
	var all [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	return fmt.Sprint(len(all))
}
