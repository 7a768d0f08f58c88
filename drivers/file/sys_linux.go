package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handle is an open file: a bare descriptor, or f where that is not nil.
type handle struct {
	fd int
	f  *os.File
}

// openFast opens a path below the root for reading, in one system call that
// refuses links out of it; flags are nonblock and directory.
func (m *Map) openFast(key string, flags int) (handle, error) {
	fd, err := m.openat2(key, unix.O_RDONLY|unix.O_NOCTTY|uint64(flags)) // bits
	return handle{fd: fd}, err
}

// statFast is the same for Stat.
func (m *Map) statFast(key string) (meta, error) {
	fd, err := m.openat2(key, unix.O_PATH)
	if err != nil {
		return meta{}, err
	}
	h := handle{fd: fd}
	defer h.close()
	return h.stat()
}

func (m *Map) openat2(key string, flags uint64) (int, error) {
	if m.slow.Load() {
		return -1, errNoFastOpen
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range 100 {
		fd, err := unix.Openat2(int(m.dir.Fd()), key, &how)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN): // EAGAIN: something was renamed meanwhile
			continue
		case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.E2BIG):
			m.slow.Store(true) // an old kernel, or a sandbox without this call
			return -1, errNoFastOpen
		case errors.Is(err, unix.EXDEV):
			return -1, errNoFastOpen // a link leaves the root: package os finds the words
		}
		return fd, err
	}
	return -1, errNoFastOpen
}

func (h handle) stat() (meta, error) {
	if h.f != nil {
		info, err := h.f.Stat()
		if err != nil {
			return meta{}, err
		}
		return metaOf(info), nil
	}
	var st unix.Stat_t
	for {
		err := unix.Fstat(h.fd, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return meta{mode: modeOf(st.Mode), size: st.Size, mtime: time.Unix(st.Mtim.Unix()), file: st.Ino}, err
	}
}

// modeOf gives the type of a file in the terms of io/fs.
func modeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}

func (h handle) readAt(p []byte, off int64) (int, error) {
	if h.f != nil {
		return h.f.ReadAt(p, off)
	}
	for {
		n, err := unix.Pread(h.fd, p, off)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// file gives the handle as a file, which owns it from then on.
func (h handle) file(name string) *os.File {
	if h.f != nil {
		return h.f
	}
	return os.NewFile(uintptr(h.fd), name)
}

// descriptor returns the descriptor of the file, which stays the handle's.
func (h handle) descriptor() int {
	if h.f != nil {
		return int(h.f.Fd())
	}
	return h.fd
}

func (h handle) close() {
	if h.f != nil {
		_ = h.f.Close()
		return
	}
	_ = unix.Close(h.fd)
}

// setTime sets the time of modification through the descriptor: the sandbox
// refuses to set that of a path, as nothing would confine which.
func (t *temporary) setTime(mtime time.Time) error {
	at, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return err
	}
	conn, err := t.f.SyscallConn()
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{at, at}
	var errno unix.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	})
	if errno != 0 {
		return &fs.PathError{Op: "futimens", Path: t.name, Err: errno}
	}
	return err
}

// renameNew gives the file the name of an object, unless that name is taken.
func (t *temporary) renameNew(m *Map, key string) error {
	dir, name := split(key)
	d, err := m.openAs(dir, directory)
	if err != nil {
		return err
	}
	defer d.close()
	fd := d.descriptor()
	err = unix.Renameat2(fd, t.name, fd, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return linkNew(t.dir, t.name, name) // the file system, or a sandbox, does not know this call
	}
	return err
}

// manyNames is room for the names of a long directory, in bytes.
const manyNames = 32 << 10

// eachName calls f with the names in a directory and the types of their files
// until it returns false. It reads them straight from the system: with
// 100,000 names that takes a third of the time and memory of os.File.ReadDir.
func eachName(d handle, f func(name string, t fs.FileMode) bool) error {
	fd := d.descriptor()
	buf := make([]byte, 1<<10) // what is asked for most is whether there is anything
	for {
		n, err := unix.Getdents(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			name, t, size := parseDirent(rest)
			if size == 0 {
				return unix.EIO
			}
			rest = rest[size:]
			if name == "." || name == ".." || name == "" {
				continue
			}
			if t == unix.DT_UNKNOWN {
				t = typeOf(fd, name)
			}
			if !f(name, direntMode(t)) {
				return nil
			}
		}
		if len(buf) < manyNames {
			buf = make([]byte, manyNames)
		}
	}
}

// parseDirent reads one record of getdents64: file number and position, 8
// bytes each, length of the record, 2 bytes, type of the file, 1 byte, and the
// name up to a zero byte. A size of 0 means that it is damaged.
//
// Source: the manual page getdents(2).
func parseDirent(p []byte) (name string, t uint8, size int) {
	const head = 19
	if len(p) < head {
		return "", 0, 0
	}
	size = int(binary.NativeEndian.Uint16(p[16:]))
	if size < head || size > len(p) {
		return "", 0, 0
	}
	raw, _, _ := bytes.Cut(p[head:size], []byte{0})
	return string(raw), p[18], size
}

// typeOf asks for the type of a file where the file system does not give it
// with the name.
func typeOf(fd int, name string) uint8 {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unix.DT_REG // gone again, or reading it will say why not
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // the types of dirent are those of stat, shifted
}

func direntMode(t uint8) fs.FileMode { return modeOf(uint32(t) << 12) }

// isMount reports whether something is mounted at a directory: another file
// system, or a directory of the same one.
func (m *Map) isMount(dir string) bool {
	var st unix.Statx_t
	err := unix.Statx(int(m.dir.Fd()), dir, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return m.otherDevice(dir) // an old kernel
}
