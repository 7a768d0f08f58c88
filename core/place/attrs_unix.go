//go:build unix

package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepAttributes copies the owner, the mode and the extended attributes of the old store
// to the new one. It sets the owner of all files and directories in the new store. The
// mode of an entry is copied from the entry with the same name in the old store. If no
// such entry exists, a directory has the mode of its parent, and a file has the mode bits
// that all files of the corresponding old directory share. keepAttributes adds the bits
// of also to the mode of the store itself. It does not change modes if one store is a
// file and the other a directory.
//
// A third-party driver may still be writing to the new store. Therefore every file is
// opened relative to its open directory, without following links, and no path is
// resolved twice.
func (s *Stage) keepAttributes(also fs.FileMode) error {
	want, ok := s.old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	top, err := openIn(s.temp.lock, filepath.Base(s.Path))
	if err != nil {
		return err
	}
	defer top.Close()
	k := keeper{uid: int(want.Uid), gid: int(want.Gid), force: s.opts.Force, modes: s.opts.Directory == s.old.IsDir()}
	if err := k.own(top); err != nil {
		return err
	}
	if s.opts.Directory {
		old, _ := os.OpenFile(s.final, os.O_RDONLY|directory, 0) // if old is nil, modes are derived from the old store's own mode
		mode := uint32(want.Mode) & 0o7777                       //nolint:unconvert // Mode has 16 bits on other systems
		err := k.tree(top, old, modes{dir: mode & 0o2777, file: mode & 0o666})
		_ = old.Close()
		if err != nil {
			return err
		}
	}
	if err := copyXattrs(s.final, top); err != nil && !k.force {
		return err
	}
	if !k.modes {
		return nil
	}
	return k.chmod(top, uint32(want.Mode)&0o7777|uint32(also.Perm())) //nolint:unconvert // Mode has 16 bits on other systems
}

// openIn opens a file or directory by its name in an open directory.
func openIn(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// keeper sets the owners and the modes of files.
type keeper struct {
	uid, gid int
	force    bool // ignore failures to set the owner
	modes    bool // set modes
}

// modes contains the modes of directories and files without a counterpart in the old
// store.
type modes struct{ dir, file uint32 }

// own sets the owner of an open file. It fails for special files and for files with
// several hard links, because such a file may also exist outside the new store.
func (k *keeper) own(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1):
		return fmt.Errorf("%q is a special file or has several hard links", f.Name())
	case int(st.Uid) == k.uid && int(st.Gid) == k.gid:
		return nil
	}
	if err := f.Chown(k.uid, k.gid); err != nil && !k.force {
		return fmt.Errorf("the owner (user %d, group %d) cannot be preserved: %w", k.uid, k.gid, err)
	}
	return nil
}

// chmod sets the mode of an open file to mode.
func (k *keeper) chmod(f *os.File, mode uint32) error {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil && uint32(st.Mode)&0o7777 != mode { //nolint:unconvert // Mode has 16 bits on other systems
		err = unix.Fchmod(int(f.Fd()), mode)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: f.Name(), Err: err}
	}
	return nil
}

// tree sets the owners and modes of the content of an open directory. old is the
// directory with the same name in the old store, or nil.
func (k *keeper) tree(dir, old *os.File, m modes) error {
	was, m := counterparts(old, m)
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := k.entry(dir, old, name, was, m); err != nil {
			return err
		}
	}
	return nil
}

// entry is like tree for one entry of dir. It skips links and special files.
func (k *keeper) entry(dir, old *os.File, name string, was map[string]uint32, m modes) error {
	isDir, _, err := statIn(dir, name)
	if err != nil {
		if errors.Is(err, errSpecial) {
			return nil
		}
		return err
	}
	f, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := k.own(f); err != nil {
		return err
	}
	mode, known := was[name]
	known = known && (mode&unix.S_IFMT == unix.S_IFDIR) == isDir
	mode &= 0o7777
	if isDir {
		if !known {
			mode = m.dir
		}
		var below *os.File
		if known {
			below, _ = openIn(old, name) // if below is nil, modes are derived from the directory's mode
			defer below.Close()
		}
		if err := k.tree(f, below, modes{mode, m.file & mode}); err != nil {
			return err
		}
	} else if !known {
		mode = m.file
	}
	if !k.modes {
		return nil
	}
	return k.chmod(f, mode)
}

// errSpecial reports that a file is neither a directory nor a regular file.
var errSpecial = errors.New("the file is neither a directory nor a regular file")

// statIn reports whether an entry of an open directory is a directory, and returns
// its mode.
func statIn(dir *os.File, name string) (isDir bool, mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, 0, &fs.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	isDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errSpecial
	}
	return isDir, uint32(st.Mode), err //nolint:unconvert // Mode has 16 bits on other systems
}

// counterparts returns the modes of the entries in a directory of the old store by name,
// and the modes for entries that the directory does not contain.
func counterparts(old *os.File, m modes) (map[string]uint32, modes) {
	if old == nil {
		return nil, m
	}
	names, _ := old.Readdirnames(-1) // without names, modes are derived from the directory's mode
	was := make(map[string]uint32, len(names))
	all, files := uint32(0o666), false
	for _, name := range names {
		isDir, mode, err := statIn(old, name)
		if err != nil {
			continue
		}
		was[name] = mode
		if !isDir {
			all, files = all&mode, true
		}
	}
	if files {
		m.file = all
	}
	return was, m
}
