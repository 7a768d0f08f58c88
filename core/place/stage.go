package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// StagePrefix is the prefix of the directory name of a [Stage].
const StagePrefix = ".nczarr-stage-"

// oldName is the name of the old store in a stage on systems that cannot exchange two
// names in one step. A stage with an old store is not removed while no store exists at
// the final path.
const oldName = ".nczarr-old"

// ErrChanged reports that another process has replaced the store that a Stage should
// replace.
var ErrChanged = errors.New("another process has replaced the store")

// Stage is a directory next to a store. The replacement of the store is made in it.
type Stage struct {
	// Path is the path of the new store. It has the same base name as the store to
	// replace. If the new store is a directory, NewStage creates it as an empty
	// directory.
	Path string

	final string // path of the store to replace, without links
	old   fs.FileInfo
	opts  StageOptions
	temp  *Temp
	sys   system
}

// system holds the system functions that a Stage uses. Tests replace them.
type system struct {
	exchange func(a, b string) error
	syncFile func(name string) error
	syncDir  func(name string) error
	remove   func(dir string) error
}

// StageOptions are the options of [NewStage].
type StageOptions struct {
	// Directory is set if the new store is a directory rather than a file.
	Directory bool
	// Check, if not nil, is called after the stores were exchanged and before the old
	// one is removed, with the new path of the old store. If Check fails, the exchange
	// is undone.
	Check func(old string) error
	// Force ignores failures to preserve the owner or an extended attribute of the old
	// store.
	Force bool
}

// NewStage creates a stage for the existing store at final. It removes stages for the
// same store that dead processes left behind.
func NewStage(final string, opts StageOptions) (*Stage, error) {
	real, err := filepath.EvalSymlinks(final)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, err
	}
	s := &Stage{final: real, opts: opts, sys: system{exchange, syncFile, syncDir, Remove}}
	if s.old, err = os.Lstat(real); err != nil {
		return nil, err
	}
	parent, base := filepath.Split(real)
	Sweep(parent, StagePrefix, func(f Found) {
		if f.Target() == real {
			_, _ = Clean(f) // the next NewStage tries again
		}
	})
	if s.temp, err = NewTemp(parent, StagePrefix, real); err != nil {
		return nil, err
	}
	s.Path = filepath.Join(s.temp.Dir, base)
	// Sync the mark, because after a power failure it must not be empty while other
	// files in the stage have content.
	if err = s.sys.syncFile(filepath.Join(s.temp.Dir, markName)); err == nil {
		err = s.sys.syncDir(s.temp.Dir)
	}
	switch {
	case err != nil:
	case opts.Directory && s.old.IsDir(): // new files inherit the attributes of the directory
		if err = os.Mkdir(s.newPath(), 0o700); err == nil {
			err = s.keepAttributes(0o700)
		}
	case opts.Directory:
		err = os.Mkdir(s.newPath(), 0o777)
	}
	if err != nil {
		return nil, join(err, s.Discard())
	}
	return s, nil
}

// newPath returns a path to the new store, and oldPath returns the path of the old store
// on systems that cannot exchange two names. Unlike [Stage.Path], these paths cannot be
// redirected by other processes that rename the stage.
func (s *Stage) newPath() string { return filepath.Join(s.temp.fdPath(), filepath.Base(s.final)) }
func (s *Stage) oldPath() string { return filepath.Join(s.temp.fdPath(), oldName) }

// Clean removes a temporary directory that is not in use. If the directory contains the
// only copy of the old store, Clean moves the store back and returns true.
func Clean(f Found) (restored bool, err error) {
	switch to := f.Target(); {
	case !f.OnlyCopy():
	case to == "":
		return false, fmt.Errorf("cannot restore the old dataset from %q: its original path is not recorded", filepath.Join(f.Dir, oldName))
	default:
		if err := os.Rename(filepath.Join(f.Dir, oldName), to); err != nil {
			return false, err
		}
		if err := syncDir(filepath.Dir(to)); err != nil {
			return true, err
		}
		restored = true
	}
	return restored, Remove(f.Dir)
}

// Target returns the path of the store that a stage replaces, or "" if the mark has no
// target. The path consists of the directory of the stage and the base name of the
// target in the mark. Target ignores the directory in the mark, because the file system
// may now be mounted elsewhere, and because a forged mark could contain any directory.
func (f *Found) Target() string {
	base := filepath.Base(f.Mark.Target)
	if f.Mark.Target == "" || strings.Trim(base, `./\`) == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(f.Dir), base)
}

// OnlyCopy reports whether a stage contains the old store and no store exists at
// [Found.Target]. If Target returns "", OnlyCopy assumes that no such store exists.
func (f *Found) OnlyCopy() bool {
	if _, err := os.Lstat(filepath.Join(f.Dir, oldName)); err != nil {
		return false
	}
	place := f.Target()
	if place == "" {
		return true
	}
	_, err := os.Lstat(place)
	return err != nil
}

// Interrupted returns the stage that contains the only copy of the store at path because
// a process died while it replaced the store. It returns "" if no such stage exists.
func Interrupted(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(abs)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	target := filepath.Join(dir, filepath.Base(abs))
	found, _ := Find(dir, StagePrefix) // ignore stages in an unreadable directory
	for _, f := range found {
		if f.Target() == target && f.OnlyCopy() {
			return f.Dir
		}
	}
	return ""
}

// Commit syncs the new store to disk, replaces the old store with the new one, and then
// removes the old store. If a step before the removal fails, the old store stays in
// place and the new one is removed.
func (s *Stage) Commit() error {
	err := s.unchanged()
	if err == nil {
		err = s.keepAttributes(0)
	}
	if err == nil {
		err = s.sys.syncTree(s.newPath())
	}
	if err == nil {
		err = s.unchanged()
	}
	if err == nil {
		err = s.swap()
	}
	if err != nil {
		return join(err, s.Discard())
	}
	if err := s.temp.removeBy(s.sys.remove); err != nil { // the temporary directory now contains the old store
		return fmt.Errorf("the new store is in place, but the old store in %q cannot be removed completely: %w", s.temp.Dir, err)
	}
	return nil
}

// Discard removes the stage and the new store. It does not remove a stage that contains
// the old store.
func (s *Stage) Discard() error {
	if s.temp == nil {
		return nil
	}
	t := s.temp
	s.temp = nil
	if _, err := os.Lstat(filepath.Join(t.fdPath(), oldName)); err == nil {
		return t.Keep() // the directory contains the old store, which Clean moves back
	}
	return t.Remove()
}

// AbandonForTest leaves the stage as a killed process would leave it. It is for tests.
func (s *Stage) AbandonForTest() error { return s.temp.Keep() }

// unchanged fails if the old store has changed, or if the new store is not in the stage
// because another process redirected its path.
func (s *Stage) unchanged() error {
	if names, err := os.ReadDir(s.newPath()); !sameName(s.temp.lock) || s.opts.Directory && (err != nil || len(names) == 0) {
		return fmt.Errorf("another process has replaced %q", s.temp.Dir)
	}
	now, err := os.Lstat(s.final)
	switch {
	case err != nil:
		return err
	case !os.SameFile(now, s.old), !now.IsDir() && (now.Size() != s.old.Size() || !now.ModTime().Equal(s.old.ModTime())):
		return ErrChanged
	case !now.IsDir():
		return nil
	}
	mounts, err := mountsBelow(s.final)
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%q is a mount point", mounts[0])
	}
	return err
}

// swap exchanges the new and the old store and makes the exchange durable.
func (s *Stage) swap() error {
	old := s.newPath()
	err := s.sys.exchange(old, s.final)
	if errors.Is(err, errors.ErrUnsupported) {
		old, err = s.oldPath(), s.renameTwice()
	}
	if err != nil {
		return err
	}
	err = join(s.sys.syncDir(filepath.Dir(s.final)), s.sys.syncDir(s.temp.fdPath()))
	if err == nil && s.opts.Check != nil {
		err = s.opts.Check(old)
	}
	if err == nil {
		return nil
	}
	if uerr := s.undo(old); uerr != nil {
		t := s.temp
		s.temp = nil
		_ = os.Remove(filepath.Join(t.fdPath(), markName)) // Sweep does not remove a directory without a mark
		return join(err, fmt.Errorf("the old store is in %q and cannot be moved back: %w", filepath.Join(t.Dir, filepath.Base(old)), uerr), t.Keep())
	}
	return err
}

// renameTwice replaces the old store with two renames. A process that dies between them
// leaves the old store in the stage.
func (s *Stage) renameTwice() error {
	old := s.oldPath()
	if err := os.Rename(s.final, old); err != nil {
		return err
	}
	err := join(s.sys.syncDir(s.temp.fdPath()), s.sys.syncDir(filepath.Dir(s.final)))
	if err == nil {
		err = os.Rename(s.newPath(), s.final)
	}
	if err != nil {
		return join(err, os.Rename(old, s.final))
	}
	return nil
}

// undo moves the old store back into place.
func (s *Stage) undo(old string) error {
	if old == s.newPath() {
		return join(s.sys.exchange(old, s.final), s.sys.syncDir(filepath.Dir(s.final)))
	}
	err := os.Rename(s.final, s.newPath())
	if err == nil {
		err = os.Rename(old, s.final)
	}
	return join(err, s.sys.syncDir(filepath.Dir(s.final)))
}

// join is like errors.Join, with a message of one line.
func join(errs ...error) error {
	var out error
	for _, err := range errs {
		switch {
		case out == nil:
			out = err
		case err != nil:
			out = fmt.Errorf("%w; %w", out, err)
		}
	}
	return out
}
