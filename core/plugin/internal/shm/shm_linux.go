package shm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Available reports whether this system supports level 1.
const Available = true

// Create creates a sparse segment of size bytes and maps it for reading and writing.
// The size is sealed. If readOnly is set, only the returned mapping can be used to
// write to the segment. The plugin inherits the file, which may be closed afterwards.
func Create(name string, size int64, readOnly bool) (mem []byte, f *os.File, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // the kernel is older than MFD_NOEXEC_SEAL
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("memfd_create", err)
	}
	f = os.NewFile(uintptr(fd), name)
	if mem, err = create(fd, size, readOnly); err != nil {
		_ = f.Close() // the first error is more precise
		return nil, nil, err
	}
	return mem, f, nil
}

func create(fd int, size int64, readOnly bool) ([]byte, error) {
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, os.NewSyscallError("ftruncate", err)
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if readOnly { // the mapping was created before the seal and stays writable
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Munmap(mem) // the first error is more precise
		return nil, os.NewSyscallError("add seals", err)
	}
	return mem, nil
}

// Map maps the segment in descriptor fd, which must have exactly size bytes, and closes
// fd. If writable is false, writing to the memory causes a fault.
func Map(fd int, size int64, writable bool) ([]byte, error) {
	f := os.NewFile(uintptr(fd), "segment")
	if f == nil {
		return nil, os.ErrInvalid
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != size || size <= 0 {
		return nil, os.NewSyscallError("mmap", unix.EINVAL)
	}
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}

// Unmap removes a mapping. Its memory must no longer be used.
func Unmap(mem []byte) error { return os.NewSyscallError("munmap", unix.Munmap(mem)) }

// Release returns the pages of mem, which must start at a page boundary, to the system.
// The memory then reads as zeros. Release fails for a segment created with readOnly.
func Release(mem []byte) error {
	return os.NewSyscallError("madvise", unix.Madvise(mem, unix.MADV_REMOVE))
}
