//go:build unix

package place

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// removeAll removes a directory whose content may be hostile: nested deeper than the
// limits on descriptors or path lengths, or with directories that their owner cannot
// read. It moves nested directories to the top, so two descriptors are enough. It
// removes the mark last, so that Sweep can remove the remaining content if the process
// dies. It returns nil if the directory does not exist.
func removeAll(dir string) error {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(dir, 0o700) // if this fails, OpenFile returns an error
	}
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer func() { _ = root.Close() }()
	if err := removeContents(root, root); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(dir)
}

// removeDir removes an empty directory. It fails for files.
func removeDir(path string) error {
	if err := unix.Rmdir(path); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// removeContents removes the content of an open directory. If dir is not top,
// removeContents moves directories with content to top. If dir is top, removeContents
// removes these directories with their content, but not the mark.
func removeContents(dir, top *os.File) error {
	for {
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		names, err := dir.Readdirnames(1024)
		if dir == top {
			names = slices.DeleteFunc(names, func(name string) bool { return name == markName })
		}
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		var failed error
		gone := 0
		for _, name := range names {
			if err := remove(dir, top, name); err != nil {
				failed = err
			} else {
				gone++
			}
		}
		if gone == 0 {
			return failed
		}
	}
}

// remove removes an entry of a directory. If the entry is a directory with content,
// it moves the entry to top, or empties and removes it if dir is top.
func remove(dir, top *os.File, name string) error {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(unix.Unlinkat(at, name, unix.AT_REMOVEDIR), unix.ENOTDIR) {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	if unix.Fstatat(at, name, new(unix.Stat_t), unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil //nolint:nilerr // the directory was empty and has been removed
	}
	if err := unix.Fchmodat(at, name, 0o700, 0); err != nil { // the entry is a directory with content
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	if dir != top {
		err := unix.Renameat(at, name, int(top.Fd()), fmt.Sprintf("%016x", rand.Uint64()))
		if err != nil {
			return &fs.PathError{Op: "rename", Path: name, Err: err}
		}
		return nil
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	inner := os.NewFile(uintptr(fd), name)
	err = removeContents(inner, top)
	_ = inner.Close()
	if err == nil {
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	return err
}
