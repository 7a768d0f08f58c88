package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// StagePrefix begins the names of the directories in which new stores are made
// beside those that they replace.
const StagePrefix = ".nczarr-stage-"

// oldName is the name, in a stage, of what is being replaced where two names
// cannot be swapped in one step. A stage that has it is not swept as long as
// nothing is at the final place.
const oldName = ".nczarr-old"

// ErrChanged reports that what a Stage was to replace is no longer there.
var ErrChanged = errors.New("it was replaced by somebody else meanwhile")

// Stage is a place beside a store in which its replacement is made.
type Stage struct {
	// Path is where the new store is to be made. Its base name is that of the
	// store that it replaces. A directory is there already, and empty.
	Path string

	final string // without links
	old   fs.FileInfo
	opts  StageOptions
	temp  *Temp
	sys   system
}

// system is what a Stage asks of the system; tests put others in its place.
type system struct {
	exchange func(a, b string) error
	syncFile func(name string) error
	syncDir  func(name string) error
	remove   func(dir string) error
}

// StageOptions are the options of [NewStage].
type StageOptions struct {
	// Directory says that the new store is a directory rather than a file.
	Directory bool
	// Check is called with the new path of the old store after it was swapped
	// out and before it is removed. If it fails, the swap is undone.
	Check func(old string) error
	// Force ignores failures to keep the owner or an attribute of the old store.
	Force bool
}

// NewStage makes a stage for the store at final, and removes stages that dead
// processes left for the same place.
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
		if f.Place() == real {
			_, _ = Clean(f) // what cannot be removed stays for the next
		}
	})
	if s.temp, err = NewTemp(parent, StagePrefix, real); err != nil {
		return nil, err
	}
	s.Path = filepath.Join(s.temp.Dir, base)
	// After a power failure the mark must not be empty beside what was written later.
	if err = s.sys.syncFile(filepath.Join(s.temp.Dir, markName)); err == nil {
		err = s.sys.syncDir(s.temp.Dir)
	}
	switch {
	case err != nil:
	case opts.Directory && s.old.IsDir(): // what is made in it inherits from it
		if err = os.Mkdir(s.made(), 0o700); err == nil {
			err = s.keepAttributes(0o700)
		}
	case opts.Directory:
		err = os.Mkdir(s.made(), 0o777)
	}
	if err != nil {
		return nil, join(err, s.Discard())
	}
	return s, nil
}

// made returns a path to the new store, and kept one to what it replaces where
// two names cannot be swapped. Nothing that somebody else puts beside the old
// store changes where they lead; [Stage.Path] is for those who cannot use them.
func (s *Stage) made() string { return filepath.Join(s.temp.reach(), filepath.Base(s.final)) }
func (s *Stage) kept() string { return filepath.Join(s.temp.reach(), oldName) }

// Clean removes a temporary directory that is not in use. If it holds the only
// copy of the old store, Clean puts that back and returns true.
func Clean(f Found) (restored bool, err error) {
	switch to := f.Place(); {
	case !f.OnlyCopy():
	case to == "":
		return false, fmt.Errorf("its mark does not say where %q belongs", filepath.Join(f.Dir, oldName))
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

// Place returns where what is in a stage belongs: the name of the target,
// beside the stage. The directories of the target do not count: a file system
// may be mounted elsewhere now, and whoever wrote the mark, nothing is put
// anywhere else. It is empty if the mark names no target.
func (f *Found) Place() string {
	base := filepath.Base(f.Mark.Target)
	if f.Mark.Target == "" || strings.Trim(base, `./\`) == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(f.Dir), base)
}

// OnlyCopy reports whether a stage holds the old store, and nothing is at its
// place or its mark names no place.
func (f *Found) OnlyCopy() bool {
	if _, err := os.Lstat(filepath.Join(f.Dir, oldName)); err != nil {
		return false
	}
	place := f.Place()
	if place == "" {
		return true
	}
	_, err := os.Lstat(place)
	return err != nil
}

// Interrupted returns the stage that holds the only copy of the store at path,
// left by a process that died while replacing it, or "".
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
	found, _ := Find(dir, StagePrefix) // nothing can be said about a directory that cannot be read
	for _, f := range found {
		if f.Place() == target && f.OnlyCopy() {
			return f.Dir
		}
	}
	return ""
}

// Commit syncs the new store to the disk, puts it in place of the old one, and
// then removes the old one. If a step before the removal fails, the old store is
// where it was and the new one is gone.
func (s *Stage) Commit() error {
	err := s.unchanged()
	if err == nil {
		err = s.keepAttributes(0)
	}
	if err == nil {
		err = s.sys.syncTree(s.made())
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
	if err := s.temp.removeBy(s.sys.remove); err != nil { // the old one is in it, by now
		return fmt.Errorf("the new one is in place, and what is left of the old one, in %q, cannot be removed: %w", s.temp.Dir, err)
	}
	return nil
}

// Discard removes what was staged.
func (s *Stage) Discard() error {
	if s.temp == nil {
		return nil
	}
	t := s.temp
	s.temp = nil
	if _, err := os.Lstat(filepath.Join(t.reach(), oldName)); err == nil {
		return t.Keep() // it could not be put back: Clean can
	}
	return t.Remove()
}

// Die leaves the stage as a killed process would. It is for tests.
func (s *Stage) Die() error { return s.temp.Keep() }

// unchanged makes sure that what is replaced is still what it was, and that the
// new store was made in the stage, and not where somebody else let its name lead.
func (s *Stage) unchanged() error {
	if names, err := os.ReadDir(s.made()); !sameName(s.temp.lock) || s.opts.Directory && (err != nil || len(names) == 0) {
		return fmt.Errorf("%s was replaced by somebody else meanwhile", s.temp.Dir)
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
		err = fmt.Errorf("%s is a mount point", mounts[0])
	}
	return err
}

// swap puts the new store into the place of the old one and makes that durable.
func (s *Stage) swap() error {
	old := s.made()
	err := s.sys.exchange(old, s.final)
	if errors.Is(err, errors.ErrUnsupported) {
		old, err = s.kept(), s.renames()
	}
	if err != nil {
		return err
	}
	err = join(s.sys.syncDir(filepath.Dir(s.final)), s.sys.syncDir(s.temp.reach()))
	if err == nil && s.opts.Check != nil {
		err = s.opts.Check(old)
	}
	if err == nil {
		return nil
	}
	if uerr := s.undo(old); uerr != nil {
		t := s.temp
		s.temp = nil
		_ = os.Remove(filepath.Join(t.reach(), markName)) // so that nobody sweeps it
		return join(err, fmt.Errorf("what was there is in %s, as it cannot be put back: %w", filepath.Join(t.Dir, filepath.Base(old)), uerr), t.Keep())
	}
	return err
}

// renames is exchange in two steps: a process that dies in between leaves the
// old one in the stage.
func (s *Stage) renames() error {
	old := s.kept()
	if err := os.Rename(s.final, old); err != nil {
		return err
	}
	err := join(s.sys.syncDir(s.temp.reach()), s.sys.syncDir(filepath.Dir(s.final)))
	if err == nil {
		err = os.Rename(s.made(), s.final)
	}
	if err != nil {
		return join(err, os.Rename(old, s.final))
	}
	return nil
}

// undo puts the old one back into its place.
func (s *Stage) undo(old string) error {
	if old == s.made() {
		return join(s.sys.exchange(old, s.final), s.sys.syncDir(filepath.Dir(s.final)))
	}
	err := os.Rename(s.final, s.made())
	if err == nil {
		err = os.Rename(old, s.final)
	}
	return join(err, s.sys.syncDir(filepath.Dir(s.final)))
}

// join is errors.Join on one line.
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
