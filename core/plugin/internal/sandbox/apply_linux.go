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

// Probe asks the kernel what it offers.
func Probe() Support {
	s := Support{Landlock: min(landlockCall(1<<0), abiNewest), Scoped: landlockCall(1<<1)&erratumScope != 0, Seccomp: haveAction(unix.SECCOMP_RET_ERRNO)}
	s.Notify = s.Seccomp && s.Landlock > 0 && haveAction(unix.SECCOMP_RET_USER_NOTIF) // what has Landlock can continue calls
	s.Look = s.Notify && mayLook()
	return s
}

// mayLook asks whether descriptors of other processes can be taken at all.
func mayLook() bool {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(self) //nolint:errcheck // nothing was written
	copied, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(copied) // as above
	return true
}

// erratumScope is set where threads of one process may always signal each
// other.
const erratumScope = 1 << 1

// landlockCall asks for the version or the errata of Landlock; 0 is none.
func landlockCall(flag uintptr) int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, flag)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Apply puts the policy that text holds in force for all threads, for good.
// Who executes a program afterwards does so from the thread that called it,
// and stays on that thread in between.
// An error leaves the process partly restricted: it must end.
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

// closeOthers closes what the process inherited without being meant to. What
// Go opened by itself closes on exec; what was inherited does not.
func closeOthers(p *Policy) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || slices.Contains(p.Keep, fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // it may have been the directory itself
		}
	}
	return nil
}

// The limits that do not depend on the policy.
const (
	maxFiles   = 4096
	maxStack   = 64 << 20
	maxThreads = 4096 // more than the machine has at the start
	// maxReserved is how many addresses a process may have besides its memory. A
	// runtime reserves more than it uses, but tables of pages, which no limit
	// counts, can take one byte in 512.
	maxReserved = 128 << 30
)

// taskLimit gives how many processes and threads the user may have before this
// process can make no more. The kernel counts all of the user's, so that
// those which run already, whoever's they are, are added; it does not count
// those of the superuser.
func taskLimit() uint64 {
	text, _ := os.ReadFile("/proc/loadavg") // without it nobody's are added
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

// setLimits sets resource limits, which only ever go down.
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
	if p.Memory > 0 && !p.MayExec { // runtimes of others may reserve any number
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
		if err := syscall.Setrlimit(l.what, &r); err != nil { // not x/sys's: exec would undo it
			return fmt.Errorf("limit %d: %w", l.what, err)
		}
	}
	return nil
}

// What the superuser keeps: to read the files of other users where a driver is
// granted a path, and to change them where it may write, as a driver in the
// program itself would.
const (
	readingCapabilities = 1 << unix.CAP_DAC_READ_SEARCH
	writingCapabilities = readingCapabilities | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
)

// dropCapabilities takes the superuser's powers away. With no_new_privs an
// execution cannot bring them back.
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
	var pin runtime.Pinner // all threads look at them
	defer pin.Unpin()
	pin.Pin(&header)
	pin.Pin(&data)
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	return failure(errno)
}

// dieWithParent has each thread ended with the host: the signal is a thread's,
// the first one has it from its start, and any may execute the program.
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
