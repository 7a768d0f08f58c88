//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handOverListening has the host judge this thread's calls to listen, and those
// of the program that it executes: a filter cannot count them. The host receives
// the right to through p.Listening, and need not have done so when this returns.
// Where another supervisor around us has the only such right that the kernel
// gives, the host is told that there is none.
func handOverListening(p *Policy) error {
	if p.Listening == 0 {
		return nil
	}
	var f filter
	f.prologue()
	f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SYS_LISTEN, 0, 1)
	f.ret(unix.SECCOMP_RET_USER_NOTIF)
	f.ret(unix.SECCOMP_RET_ALLOW)
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	judge, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	var rights []byte
	if errno == 0 {
		rights = unix.UnixRights(int(judge))
		defer unix.Close(int(judge)) //nolint:errcheck // the host has it
	} else if errno != unix.EBUSY {
		return errno
	}
	err := unix.Sendmsg(p.Listening, []byte{1}, rights, nil, unix.MSG_NOSIGNAL)
	return errors.Join(err, unix.Close(p.Listening))
}

// ListeningPair makes the descriptors through which a new process hands over
// supervision of its calls to listen.
func ListeningPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "listening"), os.NewFile(uintptr(fds[1]), "listening"), nil
}

// ErrNotHandedOver reports that a process did not hand over supervision of its
// calls to listen.
var ErrNotHandedOver = errors.New("the process did not hand over its calls to listen")

// ListenOnce lets the process listen once; later calls fail. It returns when the
// process listens or has ended.
func ListenOnce(ours *os.File) error {
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn int
	var err error
	for {
		if n, oobn, _, _, err = unix.Recvmsg(int(ours.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == 0 { // it ended
		return cmp.Or(os.NewSyscallError("recvmsg", err), io.EOF)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return ErrNotHandedOver
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return ErrNotHandedOver
	}
	defer unix.Close(fds[0]) //nolint:errcheck // all later calls fail by it
	for {
		if err := allowNext(fds[0]); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINTR) { // a signal interrupted the call, which comes again
			return err
		}
	}
}

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	rest       [7]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// allowNext waits for the next call and lets it go on.
func allowNext(judge int) error {
	poll := []unix.PollFd{{Fd: int32(judge), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, -1); err != nil {
		return err
	}
	if poll[0].Revents&unix.POLLIN == 0 {
		return io.EOF
	}
	var call notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(judge), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno != 0 {
		return errno
	}
	if call.number != unix.SYS_LISTEN {
		return fmt.Errorf("asked about call %d", call.number)
	}
	answer := response{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(judge), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer))); errno != 0 {
		return errno
	}
	return nil
}
