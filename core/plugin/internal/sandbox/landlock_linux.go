//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Access rights for files and directories.
const (
	readFile  = ll.AccessFSReadFile
	writeFile = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	execFile  = ll.AccessFSReadFile | ll.AccessFSExecute
	readDir   = readFile | ll.AccessFSReadDir
	execDir   = execFile | ll.AccessFSReadDir
	writeDir  = writeFile | readDir | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSRefer
	ownDir    = writeDir | ll.AccessFSMakeSock
)

// confineFiles applies the Landlock rules of p.
func confineFiles(p *Policy) error {
	if !p.Kernel.usable(p) {
		return nil
	}
	fs, net, scoped := handled(p)
	config, err := landlock.NewConfig(fs, net, scoped)
	if err != nil {
		return err
	}
	var rules []landlock.Rule
	var places []*os.File
	defer func() {
		for _, f := range places {
			_ = f.Close()
		}
	}()
	add := func(paths []string, file, dir landlock.AccessFSSet, open func(string) (*os.File, error)) {
		for _, path := range paths {
			f, err := open(path)
			if err != nil {
				continue // a path that does not exist needs no rule
			}
			places = append(places, f)
			rights := file
			if st, err := f.Stat(); err == nil && st.IsDir() {
				rights = dir
			}
			rules = append(rules, landlock.PathAccess(rights&fs, "/proc/self/fd/"+strconv.Itoa(int(f.Fd()))))
		}
	}
	if p.Private != "" {
		add([]string{p.Private}, 0, ownDir, openPath)
	}
	add(p.Read, readFile, readDir, openResolved)
	add(p.Write, writeFile, writeDir, openResolved)
	add(p.Exec, execFile, execDir, openPath)
	if net&ll.AccessNetConnectTCP != 0 {
		for _, port := range p.Ports {
			rules = append(rules, landlock.ConnectTCP(port))
		}
	}
	return config.Restrict(rules...)
}

// openPath opens the file or directory of a rule. The descriptor serves both to find
// the type and to create the rule, so path cannot be replaced in between.
func openPath(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH, 0)
}

// openResolved opens a path whose symbolic links the host has resolved. It fails if the
// path contains a link, which another process must have created later.
func openResolved(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // an enclosing seccomp filter refuses the call
		return openCompared(path)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openCompared is like openResolved without the system call openat2. It compares the path
// that the kernel reports for the descriptor with path.
func openCompared(path string) (*os.File, error) {
	f, err := openPath(path)
	if err != nil {
		return nil, err
	}
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err == nil && at != filepath.Clean(path) {
		err = &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// handled returns the rights that this kernel can restrict, except those that p grants
// in full.
func handled(p *Policy) (landlock.AccessFSSet, landlock.AccessNetSet, landlock.ScopedSet) {
	abi := p.Kernel.Landlock
	fs := landlock.AccessFSSet(1<<13 - 1) // all rights of version 1
	for _, right := range []struct {
		since int
		right landlock.AccessFSSet
	}{{abiRefer, ll.AccessFSRefer}, {abiTruncate, ll.AccessFSTruncate}, {5, ll.AccessFSIoctlDev}, {abiUnix, ll.AccessFSResolveUnix}} {
		if abi >= right.since {
			fs |= right.right
		}
	}
	var net landlock.AccessNetSet
	if abi >= abiTCP {
		net = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
		if p.Network && len(p.Ports) == 0 {
			net = ll.AccessNetBindTCP
		}
	}
	if abi >= abiUDP && !p.Network {
		net |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
	}
	var scoped landlock.ScopedSet
	if abi >= abiScope {
		scoped = ll.ScopeAbstractUnixSocket
		if p.Kernel.Scoped || p.MayExec { // execve leaves one thread, which need not signal others
			scoped |= ll.ScopeSignal
		}
	}
	return fs, net, scoped
}
