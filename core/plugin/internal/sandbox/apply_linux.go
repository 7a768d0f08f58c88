//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// Probe returns what the kernel supports.
func Probe() Support {
	s := Support{Landlock: min(landlockCall(1<<0), abiNewest), Scoped: landlockCall(1<<1)&erratumScope != 0, Seccomp: haveAction(unix.SECCOMP_RET_ERRNO)}
	s.Notify = s.Seccomp && s.Landlock > 0 && haveAction(unix.SECCOMP_RET_USER_NOTIF) // kernels with Landlock also support continuing a notified call
	s.Inspect = s.Notify && mayDuplicate()
	return s
}

// mayDuplicate reports whether this process may duplicate descriptors of other
// processes. It tests this with its own descriptors.
func mayDuplicate() bool {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(self) //nolint:errcheck // nothing was written, so Close cannot lose data
	copied, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(copied) // nothing was written, so Close cannot lose data
	return true
}

// erratumScope is the bit of the Landlock erratum whose fix permits threads of one
// process to signal each other.
const erratumScope = 1 << 1

// landlockCall returns the version or the errata of Landlock, as selected by flag. It
// returns 0 if the kernel does not support Landlock or the flag.
func landlockCall(flag uintptr) int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, flag)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Apply permanently applies the encoded policy to all threads. A caller that then
// executes a program must stay locked to one thread during both calls. After an error
// the process may be partly restricted and must exit.
func Apply(text string) (*Policy, error) {
	var p Policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	steps := []struct {
		name string
		do   func(*Policy) error
	}{
		{"close descriptors", closeOthers},
		{"set limits", setLimits},
		{"drop capabilities", dropCapabilities},
		{"keep the parent-death signal", dieWithParent},
		{"set no_new_privs", noNewPrivileges},
		{"apply Landlock", confineFiles},
		{"hand over calls", handOverCalls},
		{"apply seccomp", filterCalls},
	}
	for _, s := range steps {
		if err := s.do(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return &p, nil
}

// closeOthers closes inherited descriptors that are not in p.KeepFDs. Inherited
// descriptors are those without the close-on-exec flag, which Go sets for all files
// that it opens.
func closeOthers(p *Policy) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || slices.Contains(p.KeepFDs, fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // fd may be the descriptor of the directory itself
		}
	}
	return nil
}

// Limits that do not depend on the policy.
const (
	maxFiles   = 4096
	maxStack   = 64 << 20
	maxThreads = 4096 // threads of a process, in addition to all tasks that run when it starts
	// maxReserved is the address space in bytes that a process may reserve in addition
	// to its memory. A runtime reserves more than it uses. The limit is necessary
	// because page tables, which no other limit counts, can use 1/512 of the address
	// space.
	maxReserved = 128 << 30
)

// taskLimit returns the value of RLIMIT_NPROC. The kernel compares the limit with the
// number of all processes and threads of the user, so taskLimit adds the number of
// tasks that run now, of all users. The kernel does not limit the superuser.
func taskLimit() uint64 {
	text, _ := os.ReadFile("/proc/loadavg") // if reading fails, taskLimit adds nothing
	fields := strings.Fields(string(text))
	if len(fields) < 4 {
		return maxThreads
	}
	_, total, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseUint(total, 10, 32)
	if err != nil {
		return maxThreads
	}
	return n + maxThreads
}

// setLimits sets resource limits. It never raises a limit.
func setLimits(p *Policy) error {
	type limit struct {
		what int
		max  uint64
	}
	limits := []limit{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, maxFiles}, {unix.RLIMIT_STACK, maxStack}, {unix.RLIMIT_MEMLOCK, 64 << 10}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_NPROC, taskLimit()},
	}
	if p.Memory > 0 {
		limits = append(limits, limit{unix.RLIMIT_DATA, uint64(p.Memory)})
	}
	if p.Memory > 0 && !p.MayExec { // runtimes of third-party plugins may reserve more
		limits = append(limits, limit{unix.RLIMIT_AS, uint64(p.Memory) + maxReserved})
	}
	if p.NoFiles {
		limits = append(limits, limit{unix.RLIMIT_FSIZE, 0})
	}
	for _, l := range limits {
		var r syscall.Rlimit
		if err := syscall.Getrlimit(l.what, &r); err != nil {
			return err
		}
		r.Cur, r.Max = min(r.Cur, l.max), min(r.Max, l.max)
		if l.what == unix.RLIMIT_NOFILE {
			r.Cur = r.Max
		}
		if err := syscall.Setrlimit(l.what, &r); err != nil { // after unix.Setrlimit, syscall.Exec would restore the old limit
			return fmt.Errorf("set resource limit %d: %w", l.what, err)
		}
	}
	return nil
}

// Capabilities that a driver of the superuser keeps: to read files of other users if
// the driver may read a path, and to change them if it may write to a path. A driver
// that runs in process has the same access.
const (
	readingCapabilities = 1 << unix.CAP_DAC_READ_SEARCH
	writingCapabilities = readingCapabilities | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
)

// dropCapabilities drops the capabilities that the grants do not require. Because of
// no_new_privs, executing a program cannot restore them.
func dropCapabilities(p *Policy) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	keep := uint32(0)
	switch {
	case len(p.Write) > 0:
		keep = writingCapabilities
	case len(p.Read) > 0:
		keep = readingCapabilities
	}
	data[0] = unix.CapUserData{Effective: data[0].Effective & keep, Permitted: data[0].Permitted & keep}
	data[1] = unix.CapUserData{}
	var pin runtime.Pinner // all threads access the structures
	defer pin.Unpin()
	pin.Pin(&header)
	pin.Pin(&data)
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	return failure(errno)
}

// dieWithParent sets the parent-death signal of all threads. Each thread has its own
// parent-death signal. The host sets only that of the first thread, but any thread may
// execute the program.
func dieWithParent(p *Policy) error {
	if !p.MayExec {
		return nil
	}
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	return failure(errno)
}

func noNewPrivileges(*Policy) error {
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	return failure(errno)
}

func failure(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
