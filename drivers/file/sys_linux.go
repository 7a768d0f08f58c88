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

// handle is an open file: f, or the bare descriptor fd if f is nil.
type handle struct {
	fd int
	f  *os.File
}

// openFast opens a path below the root for reading, with one system call that refuses
// links out of the root. flags may contain nonblock and directory.
func (m *Map) openFast(key string, flags int) (handle, error) {
	fd, err := m.openat2(key, unix.O_RDONLY|unix.O_NOCTTY|uint64(flags)) // flags is a bit mask
	return handle{fd: fd}, err
}

// statFast returns the metadata of a file, with the same system call as openFast.
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
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN): // EAGAIN: a concurrent rename
			continue
		case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.E2BIG):
			m.slow.Store(true) // an old kernel, or a sandbox without this call
			return -1, errNoFastOpen
		case errors.Is(err, unix.EXDEV):
			return -1, errNoFastOpen // a link leaves the root: package os returns a better error
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

// modeOf converts the file type of a stat mode to an fs.FileMode.
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

// file returns the handle as an os.File, which takes ownership of the descriptor.
func (h handle) file(name string) *os.File {
	if h.f != nil {
		return h.f
	}
	return os.NewFile(uintptr(h.fd), name)
}

// descriptor returns the descriptor of the file. The handle keeps ownership.
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

// setTime sets the modification time through the descriptor. The sandbox refuses to set
// the time by path, because it cannot restrict the path.
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

// renameNew renames the temporary file to the name of an object. It fails if that name
// exists.
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
		return linkNew(t.dir, t.name, name) // the file system or a sandbox does not support this call
	}
	return err
}

// manyNames is the size of the buffer for a long directory, in bytes.
const manyNames = 32 << 10

// eachName calls f with each name in a directory and the type of its file, until f
// returns false. It calls getdents directly: with 100,000 names that takes a third of
// the time and memory of os.File.ReadDir.
func eachName(d handle, f func(name string, t fs.FileMode) bool) error {
	fd := d.descriptor()
	buf := make([]byte, 1<<10) // most calls only check whether the directory is empty
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
			if !f(name, modeOf(uint32(t)<<12)) {
				return nil
			}
		}
		if len(buf) < manyNames {
			buf = make([]byte, manyNames)
		}
	}
}

// parseDirent parses one record of getdents64: inode number and directory offset, 8 bytes
// each; record length, 2 bytes; file type, 1 byte; then the name, which ends with a zero
// byte. parseDirent returns a size of 0 for a damaged record.
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

// typeOf returns the type of a file, for file systems that do not return it with the
// name.
func typeOf(fd int, name string) uint8 {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unix.DT_REG // the file is gone, or a later read reports the cause
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // dirent has the type bits of stat, shifted
}

// isMount reports whether dir is a mount point, including a bind mount of a directory of
// the same file system.
func (m *Map) isMount(dir string) bool {
	var st unix.Statx_t
	err := unix.Statx(int(m.dir.Fd()), dir, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return m.otherDevice(dir) // an old kernel
}
