//go:build unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemove checks that Remove removes directories that are nested deeper than the
// limit on descriptors or that their owner cannot read.
func TestRemove(t *testing.T) { //nolint:paralleltest // the test changes a limit of the process
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	const depth = 300
	low := limit
	low.Cur = min(limit.Cur, uint64(at)+depth/2)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
	for i := range depth {
		mode := uint32(0o700)
		if i%100 == 7 {
			mode = 0o300
		}
		var next int
		err := unix.Mkdirat(at, "d", 0o700)
		if err == nil {
			next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err == nil && i%100 == 0 {
			err = unix.Symlinkat("/", at, "link")
		}
		if err == nil {
			err = unix.Fchmodat(at, "d", mode, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat of the removed directory: want fs.ErrNotExist, got %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("Remove of a missing directory: %v", err)
	}
}

// TestMarkIsRemovedLast checks that the mark of a directory still exists if Remove fails
// or the process dies, because Sweep ignores directories without a mark.
func TestMarkIsRemovedLast(t *testing.T) { //nolint:paralleltest // the test changes a limit of the process
	dir := filepath.Join(t.TempDir(), "temporary")
	put(t, filepath.Join(dir, markName), markText)
	put(t, filepath.Join(dir, "x", "f"), "")
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	var limit unix.Rlimit
	if err := errors.Join(err, unix.Close(at), unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(at) + 1 // dir can be opened, but not the directories in it
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	failed := Remove(dir)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if failed == nil {
		t.Error("Remove succeeded, want an error")
	}
	if _, ok := readMark(filepath.Join(dir, markName)); !ok {
		t.Error("the directory has no mark after a failed Remove")
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
}

// TestLinkInPlaceOfAStage replaces the stage with a link, as another user could. The link
// points to a directory that contains a third user's directory with the name of the store.
// Commit must not change that directory or the store.
func TestLinkInPlaceOfAStage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		made, putBack bool // the new store is made before the link; the link is removed before Commit
	}{
		{name: "after the store was made", made: true},
		{name: "while the store was made", putBack: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			final, other := filepath.Join(dir, "shared", "x"), filepath.Join(dir, "other")
			put(t, final+"/f", "old")
			put(t, other+"/x/precious", "precious")
			for _, name := range []string{other, other + "/x"} {
				if err := os.Chmod(name, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			s, err := NewStage(final, StageOptions{Directory: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.made {
				put(t, s.Path+"/f", "new")
			}
			aside := filepath.Join(dir, "shared", "aside")
			if err := errors.Join(os.Rename(s.temp.Dir, aside), os.Symlink(other, s.temp.Dir)); err != nil {
				t.Fatal(err)
			}
			if c.putBack {
				put(t, s.Path+"/f", "new")
				if err := errors.Join(os.Remove(s.temp.Dir), os.Rename(aside, s.temp.Dir)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Commit(); err == nil {
				t.Error("Commit succeeded, want an error")
			}
			for name, want := range map[string]string{final + "/f": "old", other + "/x/precious": "precious"} {
				if text, err := os.ReadFile(name); err != nil || string(text) != want {
					t.Errorf("%s: got %q, %v, want the old content", name, text, err)
				}
			}
			for _, name := range []string{other, other + "/x"} {
				if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o750 {
					t.Errorf("%s: got mode %v, %v, want 0750", name, info.Mode(), err)
				}
			}
		})
	}
}
