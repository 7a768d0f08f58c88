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

// keepAttributes gives the new store the owner, mode and extended attributes of
// the old one. Everything below gets the owner, and a mode: that of what has the
// same name in the old one, else that of its neighbours there; a file gets what
// they all have. The mode of the store itself has the bits of also, too; that of
// a file means nothing for a directory.
//
// A driver of others may have made the new store, and may still be at work in it.
// So nothing is found by its path twice: every file is opened, without following
// links, in the directory that was opened before.
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
		old, _ := os.OpenFile(s.final, os.O_RDONLY|directory, 0) // without it modes follow that of the top
		mode := uint32(want.Mode) & 0o7777                       //nolint:unconvert // it has 16 bits on other systems
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
	return k.chmod(top, uint32(want.Mode)&0o7777|uint32(also.Perm())) //nolint:unconvert // as above
}

// openIn opens a file or a directory by its name in an open directory.
func openIn(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
}

// keeper gives files an owner and modes.
type keeper struct {
	uid, gid int
	force    bool // owners that cannot be given are left
	modes    bool
}

// modes are those of files that have no counterpart.
type modes struct{ dir, file uint32 }

// own gives an open file the owner. One with a second name is not only ours.
func (k *keeper) own(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1):
		return fmt.Errorf("%q is not a file of the new store alone", f.Name())
	case int(st.Uid) == k.uid && int(st.Gid) == k.gid:
		return nil
	}
	if err := f.Chown(k.uid, k.gid); err != nil && !k.force {
		return fmt.Errorf("the owner (user %d, group %d) cannot be kept: %w", k.uid, k.gid, err)
	}
	return nil
}

// chmod gives an open file a mode, unless it has that.
func (k *keeper) chmod(f *os.File, mode uint32) error {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil && uint32(st.Mode)&0o7777 != mode { //nolint:unconvert // as above
		err = unix.Fchmod(int(f.Fd()), mode)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: f.Name(), Err: err}
	}
	return nil
}

// tree gives owners and modes to what is in an open directory. old is the
// directory of that name in the old store, nil if there is none.
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

// entry is tree for one name in the directory. Links and special files stay as
// they are.
func (k *keeper) entry(dir, old *os.File, name string, was map[string]uint32, m modes) error {
	isDir, _, err := look(dir, name)
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
			below, _ = openIn(old, name) // without it modes follow that of the directory
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

// errSpecial says that a file is neither a directory nor a regular one.
var errSpecial = errors.New("a special file")

// look reports whether a name in an open directory is that of a directory, and
// its mode.
func look(dir *os.File, name string) (isDir bool, mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, 0, &fs.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	isDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errSpecial
	}
	return isDir, uint32(st.Mode), err //nolint:unconvert // as above
}

// counterparts returns the modes of what is in a directory of the old store, and
// those for what is not in it.
func counterparts(old *os.File, m modes) (map[string]uint32, modes) {
	if old == nil {
		return nil, m
	}
	names, _ := old.Readdirnames(-1) // without them modes follow that of the directory
	was := make(map[string]uint32, len(names))
	all, files := uint32(0o666), false
	for _, name := range names {
		isDir, mode, err := look(old, name)
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
