package s3server

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// withParent returns attributes that make the server end with this process.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// memoryDir returns the memory file system if it supports extended attributes and has
// room for the data of a server, and otherwise "", the default directory. The server
// stores an attribute with each object, which on a disk would take most of the time of
// the tests.
func memoryDir() string {
	const dir, room = "/dev/shm", 4 << 30
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < room { // never negative
		return ""
	}
	f, err := os.CreateTemp(dir, "nczarr-s3server-")
	if err != nil {
		return ""
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the file is in memory
	defer f.Close()
	if unix.Fsetxattr(int(f.Fd()), "user.nczarr", nil, 0) != nil {
		return ""
	}
	return dir
}
