package shm

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// tagSize is the size in bytes of the message sent with a descriptor. The message is
// the tag of the descriptor.
const tagSize = 8

// Pair returns the two ends of a new channel. The caller must close both.
func Pair() (hostEnd, pluginEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	// The descriptors are in blocking mode, but Receive never blocks.
	return os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "channel"), nil
}

// Inherit returns a file for the inherited end of a channel, or for another pollable
// descriptor. It prevents children of this process from inheriting the descriptor.
func Inherit(fd int) (*os.File, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "channel"), nil
}

// Dup duplicates the descriptor of f. The caller owns the duplicate.
func Dup(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fd int
	var got error
	err = conn.Control(func(from uintptr) { fd, got = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 10) })
	return fd, errors.Join(err, os.NewSyscallError("fcntl", got))
}

// Send sends a copy of f's descriptor with a tag. It blocks while the channel is full.
func Send(channel *os.File, tag uint64, f *os.File) error {
	conn, err := channel.SyscallConn()
	if err != nil {
		return err
	}
	msg := binary.LittleEndian.AppendUint64(nil, tag)
	var sent error
	err = conn.Write(func(fd uintptr) bool {
		for {
			sent = unix.Sendmsg(int(fd), msg, unix.UnixRights(int(f.Fd())), nil, unix.MSG_NOSIGNAL)
			if !errors.Is(sent, unix.EINTR) {
				return !errors.Is(sent, unix.EAGAIN)
			}
		}
	})
	return errors.Join(err, os.NewSyscallError("sendmsg", sent))
}

// Receive receives the next descriptor sent by [Send] and its tag. It does not block:
// it fails with os.ErrDeadlineExceeded if the channel is empty, and with io.EOF if the
// other end is closed. If this process has no free descriptor, it returns the tag and
// ErrNoDescriptor. If the message was not sent by [Send], it closes the message's
// descriptors and fails with os.ErrInvalid.
func Receive(channel *os.File) (tag uint64, f *os.File, err error) {
	conn, err := channel.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	buf := make([]byte, tagSize+1)
	oob := make([]byte, unix.CmsgSpace(4))
	var n, oobn, flags int
	var got error
	err = conn.Control(func(fd uintptr) {
		for {
			n, oobn, flags, _, got = unix.Recvmsg(int(fd), buf, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(got, unix.EINTR) {
				return
			}
		}
	})
	switch {
	case err != nil:
		return 0, nil, err
	case errors.Is(got, unix.EAGAIN):
		return 0, nil, os.ErrDeadlineExceeded
	case got != nil:
		return 0, nil, os.NewSyscallError("recvmsg", got)
	}
	fds := received(oob[:oobn])
	switch {
	case n == tagSize && len(fds) == 1 && flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) == 0:
		return binary.LittleEndian.Uint64(buf), os.NewFile(uintptr(fds[0]), "lent"), nil
	case n == tagSize && len(fds) == 0 && flags&unix.MSG_CTRUNC != 0:
		return binary.LittleEndian.Uint64(buf), nil, ErrNoDescriptor
	case n == 0 && oobn == 0:
		return 0, nil, io.EOF
	}
	for _, fd := range fds {
		_ = unix.Close(fd) // the message is invalid
	}
	return 0, nil, os.ErrInvalid
}

// MaxFiles returns the limit on the number of descriptors of this process.
func MaxFiles() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int64(min(r.Cur, math.MaxInt64))
}

// received returns the descriptors in the control part of a message.
func received(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}
