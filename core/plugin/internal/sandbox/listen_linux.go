//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handOverCalls lets the host decide about the listen and execve calls of this thread
// and of the program that it executes. A filter alone cannot decide, because it cannot
// count calls, examine descriptors or identify the calling thread. handOverCalls sends
// the notification descriptor through p.Listening. The kernel permits only one
// supervisor. If another supervisor exists, handOverCalls sends a message without a
// descriptor.
func handOverCalls(p *Policy) error {
	if p.Listening == 0 {
		return nil
	}
	var f filter
	f.prologue()
	for _, nr := range []uint32{unix.SYS_LISTEN, unix.SYS_EXECVE} {
		f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
		f.ret(unix.SECCOMP_RET_USER_NOTIF)
	}
	f.ret(unix.SECCOMP_RET_ALLOW)
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	notifyFD, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	var rights []byte
	if errno == 0 {
		rights = unix.UnixRights(int(notifyFD))
		defer unix.Close(int(notifyFD)) //nolint:errcheck // the host has its own descriptor
	} else if errno != unix.EBUSY {
		return errno
	}
	err := unix.Sendmsg(p.Listening, binary.NativeEndian.AppendUint32(nil, uint32(os.Getpid())), rights, nil, unix.MSG_NOSIGNAL)
	return errors.Join(err, unix.Close(p.Listening))
}

// ListeningPair returns a pair of connected sockets. A new process inherits childEnd and
// sends the notification descriptor for its calls through it.
func ListeningPair() (hostEnd, childEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "listening"), os.NewFile(uintptr(fds[1]), "listening"), nil
}

// Errors of Supervise that are caused by the system rather than the process.
var (
	// ErrNotHandedOver is returned if a process did not send a notification descriptor.
	ErrNotHandedOver = errors.New("the process did not send its seccomp notification descriptor")
	// ErrNotInspected is returned if a process listens on a socket that the host could
	// not inspect.
	ErrNotInspected = errors.New("the sockets of the process cannot be inspected")
)

// Supervise decides about the listen and execve calls of a process. Until it listens,
// the process may execute programs only from its first thread, because other threads
// have no parent-death signal. The process may listen once, on a Unix socket with a
// path, which Landlock restricts to its private directory. If inspect is false, Supervise
// does not inspect the socket. Supervise returns when the process listens or has
// exited, after which all supervised calls fail.
func Supervise(hostEnd *os.File, inspect bool) error {
	pid, notifyFD, err := receiveListener(hostEnd)
	if err != nil {
		return err
	}
	s := callSupervisor{notifyFD: notifyFD, pid: pid, pidFD: -1, inspect: inspect}
	defer s.close() // closing the descriptor makes all later calls fail
	for !s.listened {
		if err := s.next(); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINTR) { // a signal interrupted the call, and the process repeats it
			return err
		}
	}
	if inspect && !s.inspect {
		return ErrNotInspected
	}
	return nil
}

// receiveListener receives the id of a process and the notification descriptor for its calls.
// The caller must close the descriptor.
func receiveListener(hostEnd *os.File) (pid, notifyFD int, err error) {
	buf, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(4))
	var n, oobn int
	for {
		if n, oobn, _, _, err = unix.Recvmsg(int(hostEnd.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n < len(buf) { // the process exited
		return 0, 0, cmp.Or(os.NewSyscallError("recvmsg", err), io.EOF)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return 0, 0, ErrNotHandedOver
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, 0, ErrNotHandedOver
	}
	return int(binary.NativeEndian.Uint32(buf)), fds[0], nil
}

// notification and response are the kernel's struct seccomp_notif and struct
// seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32 // negated error number
	flags uint32
}

// callSupervisor decides about the supervised calls of one process.
type callSupervisor struct {
	notifyFD int  // notification descriptor
	pid      int  // id of the process and of its first thread
	pidFD    int  // pidfd of the process, or -1
	inspect  bool // inspect the sockets
	executed bool // the launcher has executed the plugin
	listened bool // the process has listened
}

func (s *callSupervisor) close() {
	_ = unix.Close(s.notifyFD)
	if s.pidFD >= 0 {
		_ = unix.Close(s.pidFD)
	}
}

// next waits for the next supervised call and decides about it.
func (s *callSupervisor) next() error {
	poll := []unix.PollFd{{Fd: int32(s.notifyFD), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, -1); err != nil {
		return err
	}
	if poll[0].Revents&unix.POLLIN == 0 {
		return io.EOF
	}
	var call notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.notifyFD), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno != 0 {
		return errno
	}
	answer := response{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	switch {
	case !s.executed: // the launcher executes the plugin
		s.openProcess()
	case call.number == unix.SYS_EXECVE && int(call.pid) != s.pid:
		answer = response{id: call.id, errno: -int32(unix.EPERM)}
	case call.number == unix.SYS_LISTEN && s.inspect:
		answer = response{id: call.id, errno: -int32(s.listen(int(int32(call.args[0])), int(int32(call.args[1]))))}
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.notifyFD), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer))); errno != 0 {
		return errno
	}
	s.executed, s.listened = true, call.number == unix.SYS_LISTEN && answer.errno == 0
	return nil
}

// openProcess opens a pidfd for inspecting the sockets of the process. It clears
// s.inspect if the host may not inspect them. It must be called before the launcher executes the
// plugin, while the process can still be trusted.
func (s *callSupervisor) openProcess() {
	if !s.inspect || s.pidFD >= 0 {
		return
	}
	var err error
	if s.pidFD, err = unix.PidfdOpen(s.pid, 0); err == nil {
		var stdin int
		if stdin, err = unix.PidfdGetfd(s.pidFD, 0, 0); err == nil {
			_ = unix.Close(stdin)
		}
	}
	s.inspect = err == nil
}

// listen inspects a socket and performs the listen call on behalf of the process. The
// process could otherwise replace the socket after the inspection.
func (s *callSupervisor) listen(fd, backlog int) unix.Errno {
	socket, err := unix.PidfdGetfd(s.pidFD, fd, 0)
	if err == nil {
		defer unix.Close(socket) //nolint:errcheck // the process has its own descriptor
		var at unix.Sockaddr
		if at, err = unix.Getsockname(socket); err == nil {
			if own, ok := at.(*unix.SockaddrUnix); !ok || own.Name == "" || own.Name[0] == '@' {
				return unix.EACCES
			}
			err = unix.Listen(socket, backlog)
		}
	}
	errno, _ := err.(unix.Errno) //nolint:errorlint // the error of a system call is not wrapped
	return errno
}
