//go:build amd64 || arm64

package sandbox

import (
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
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
	add := func(paths []string, file, dir landlock.AccessFSSet) {
		for _, path := range paths {
			if st, err := os.Stat(path); err == nil { // what is not there is not granted
				rights := file
				if st.IsDir() {
					rights = dir
				}
				rules = append(rules, landlock.PathAccess(rights&fs, path))
			}
		}
	}
	if p.Private != "" {
		add([]string{p.Private}, 0, ownDir)
	}
	add(p.Read, readFile, readDir)
	add(p.Write, writeFile, writeDir)
	add(p.Exec, execFile, execDir)
	if net&ll.AccessNetConnectTCP != 0 {
		for _, port := range p.Ports {
			rules = append(rules, landlock.ConnectTCP(port))
		}
	}
	return config.Restrict(rules...)
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
