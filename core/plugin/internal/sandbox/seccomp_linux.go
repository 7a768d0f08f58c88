//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

// haveAction reports whether the kernel supports a filter action.
func haveAction(action uint32) bool {
	if arch == 0 {
		return false
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}

// filterCalls installs the filter of p for all threads.
func filterCalls(p *Policy) error {
	if !p.Kernel.Seccomp {
		return nil
	}
	return install(program(p, os.Getpid()))
}

// Seal makes listening and the creation of Unix sockets fail. A built-in plugin calls
// Seal after it has started to listen. Otherwise a process with network access could
// connect to Unix sockets of the user.
func (p *Policy) Seal() error {
	if !p.Kernel.Seccomp {
		return nil
	}
	var f filter
	f.prologue()
	f.when(unix.SYS_SOCKET, func(b *block) { b.refuseIf(0, ^uint32(0), unix.AF_UNIX, unix.EACCES) })
	f.refuse(unix.EACCES, unix.SYS_LISTEN)
	f.ret(unix.SECCOMP_RET_ALLOW)
	return install(f)
}

func install(f filter) error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return errno
	}
	if tid != 0 {
		return fmt.Errorf("thread %d cannot be restricted", tid)
	}
	return nil
}

// filter is a classic BPF program.
type filter []unix.SockFilter

func (f *filter) op(code uint16, k uint32, jt, jf uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

func (f *filter) load(at uint32) { f.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (f *filter) ret(k uint32)   { f.op(unix.BPF_RET|unix.BPF_K, k, 0, 0) }

// refusal returns the filter result that makes a call fail with errno.
func refusal(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// prologue adds the first instructions of a filter. They kill a process that makes a call
// of another architecture, load the number of the call, and make calls with a number above
// lastNumber fail with ENOSYS.
func (f *filter) prologue() {
	f.load(dataArch)
	f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, arch, 1, 0)
	f.ret(unix.SECCOMP_RET_KILL_PROCESS)
	f.load(dataNumber)
	f.op(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, lastNumber, 0, 1) // the numbers of x32 calls are also larger
	f.ret(refusal(unix.ENOSYS))
}

// only makes calls that are not in numbers fail with ENOSYS. numbers has at most 255
// elements. Later rules apply to the calls in numbers.
func (f *filter) only(numbers []uint32) {
	for i, nr := range numbers {
		f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, uint8(len(numbers)-i), 0)
	}
	f.ret(refusal(unix.ENOSYS))
}

// refuse makes the calls in numbers fail with errno.
func (f *filter) refuse(errno unix.Errno, numbers ...uint32) {
	for _, nr := range numbers {
		f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
		f.ret(refusal(errno))
	}
}

// when checks the arguments of call nr with the rules that addRules adds. If no rule
// refuses the call, it is permitted.
func (f *filter) when(nr uint32, addRules func(*block)) {
	var b block
	addRules(&b)
	b.ret(unix.SECCOMP_RET_ALLOW)
	f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, uint8(len(b.filter)))
	*f = append(*f, b.filter...)
}

// block is the part of a filter that checks the arguments of one call.
type block struct{ filter }

// arg loads the lower 32 bits of argument n and applies mask.
func (b *block) arg(n int, mask uint32) {
	b.load(dataArgs + 8*uint32(n))
	if mask != ^uint32(0) {
		b.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask, 0, 0)
	}
}

// refuseIf refuses the call if the masked argument equals value.
func (b *block) refuseIf(n int, mask, value uint32, errno unix.Errno) {
	b.arg(n, mask)
	b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, 0, 1)
	b.ret(refusal(errno))
}

// refuseAny refuses the call if any of bits is set in the argument.
func (b *block) refuseAny(n int, bits uint32, errno unix.Errno) {
	b.arg(n, ^uint32(0))
	b.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, bits, 0, 1)
	b.ret(refusal(errno))
}

// allow permits the call if the argument equals any of the values.
func (b *block) allow(n int, values ...uint32) {
	b.arg(n, ^uint32(0))
	for _, v := range values {
		b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, v, 0, 1)
		b.ret(unix.SECCOMP_RET_ALLOW)
	}
}

// given applies the rules that addRules adds if argument n equals value.
func (b *block) given(n int, value uint32, addRules func(*block)) {
	var inner block
	addRules(&inner)
	b.arg(n, ^uint32(0))
	b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, 0, uint8(len(inner.filter)))
	b.filter = append(b.filter, inner.filter...)
}

// refuseUnless refuses the call unless the masked argument equals one of the values.
func (b *block) refuseUnless(n int, mask uint32, errno unix.Errno, values ...uint32) {
	b.arg(n, mask)
	for i, v := range values {
		b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, v, uint8(len(values)-i), 0)
	}
	b.ret(refusal(errno))
}

// refusePointer refuses the call unless the argument is zero.
func (b *block) refusePointer(n int, errno unix.Errno) {
	b.refuseUnless(n, ^uint32(0), errno, 0)
	b.load(dataArgs + 8*uint32(n) + 4)
	b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
	b.ret(refusal(errno))
}
