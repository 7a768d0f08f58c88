//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// The rights of a file, and those that only a directory can give.
const (
	readFile  = ll.AccessFSReadFile
	writeFile = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	execFile  = ll.AccessFSReadFile | ll.AccessFSExecute
	readDir   = readFile | ll.AccessFSReadDir
	execDir   = execFile | ll.AccessFSReadDir
	writeDir  = writeFile | readDir | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSRefer
	ownDir    = writeDir | ll.AccessFSMakeSock
)

// confineFiles puts the Landlock rules of p in force.
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
				continue // what is not there is not granted
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
		add([]string{p.Private}, 0, ownDir, place)
	}
	add(p.Read, readFile, readDir, resolvedPlace)
	add(p.Write, writeFile, writeDir, resolvedPlace)
	add(p.Exec, execFile, execDir, place)
	if net&ll.AccessNetConnectTCP != 0 {
		for _, port := range p.Ports {
			rules = append(rules, landlock.ConnectTCP(port))
		}
	}
	return config.Restrict(rules...)
}

// place opens what a rule is about, once: its kind is looked at, and the rule
// made, through the descriptor.
func place(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH, 0)
}

// resolvedPlace is place for a path in which the host has resolved all links.
// One that is there now was put there since, by somebody who may write in a
// place of the path: it is not followed.
func resolvedPlace(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // a filter around us that does not know the call
		return place(path)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// handled gives what this kernel can forbid, as far as p does not allow all
// of it.
func handled(p *Policy) (landlock.AccessFSSet, landlock.AccessNetSet, landlock.ScopedSet) {
	abi := p.Kernel.Landlock
	fs := landlock.AccessFSSet(1<<13 - 1) // all of the first version
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
		if p.Kernel.Scoped || p.MayExec { // with one thread left there is nobody to lose
			scoped |= ll.ScopeSignal
		}
	}
	return fs, net, scoped
}
