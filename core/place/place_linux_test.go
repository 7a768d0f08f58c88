package place_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/core/place"
)

// TestList checks that List returns names unchanged, omits temporary files of the file
// driver, describes special files, and fails for more entries than the limit.
func TestList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"donn\xe9es.csv", ".git/HEAD", "v/0.0", "v/.nczarr.tmp.0123456789abcdef", "v/.nczarr.tmp.mine"} {
		write(t, filepath.Join(dir, name), "1")
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	e, err := place.List(dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(e.Names)
	if want := []string{".git/HEAD", "a/b/", "donn\xe9es.csv", "v/.nczarr.tmp.mine", "v/0.0"}; !slices.Equal(e.Names, want) {
		t.Errorf("want %q, got %q", want, e.Names)
	}
	if want := []string{"fifo (a named pipe)", "link (a symbolic link)"}; !slices.Equal(e.Special, want) {
		t.Errorf("want %q, got %q", want, e.Special)
	}
	if _, err := place.List(dir, 3); err == nil {
		t.Error("List succeeded for more entries than the limit")
	}
}

// TestCommitKeepsAttributes checks that Commit preserves the owner, mode and extended
// attributes of the old store, and that other users cannot read the stage before Commit.
func TestCommitKeepsAttributes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := filepath.Join(dir, "x")
	write(t, final+"/f", "old")
	write(t, final+"/sub/f", "old")
	write(t, final+"/sub/private", "old")
	var want []byte
	if err := unix.Setxattr(final, "user.note", []byte("mine"), 0); err == nil {
		want = []byte("mine")
	} else {
		t.Logf("the file system does not support extended attributes: %v", err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1234, 2345
		if err := os.Chown(final, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(final, 0o750|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"f": 0o640, "sub": 0o710, "sub/f": 0o660, "sub/private": 0o600} {
		if err := os.Chmod(filepath.Join(final, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	s, err := place.NewStage(final, place.StageOptions{Directory: true})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(s.Path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the stage: got %v, %v, want 0700", info.Mode(), err)
	}
	modes := map[string]os.FileMode{ // mode of the entry with the same name, or else of its siblings
		"g": 0o640, "sub": 0o710, "sub/f": 0o660, "sub/g": 0o600, "new": 0o750, "new/h": 0o640, "new/deep": 0o750, "new/deep/i": 0o640,
	}
	for name := range modes {
		if name != "sub" && !strings.HasPrefix(filepath.Base(name), "new") && !strings.HasSuffix(name, "deep") {
			write(t, filepath.Join(s.Path, name), "new")
		}
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(final)
	if err != nil || info.Mode().Perm() != 0o750 || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("mode: want 0750 and setgid, got %v, %v", info.Mode(), err)
	}
	for name, mode := range modes {
		if info, err := os.Stat(filepath.Join(final, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode of %q: want %v, got %v, %v", name, mode, info.Mode(), err)
		}
	}
	for _, name := range []string{"", "sub", "sub/f"} {
		info, err := os.Stat(filepath.Join(final, name))
		if err != nil {
			t.Fatal(err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("owner of %q: want %d:%d, got %d:%d", name, uid, gid, st.Uid, st.Gid)
		}
	}
	got := make([]byte, 10)
	if n, err := unix.Getxattr(final, "user.note", got); want != nil && (err != nil || !bytes.Equal(got[:n], want)) {
		t.Errorf("extended attribute: got %q, %v", got[:max(n, 0)], err)
	}
}

// TestCommitFollowsNoLinks checks that Commit fails for a new store with a symbolic or hard
// link to a file outside the store, and does not change that file.
func TestCommitFollowsNoLinks(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		for what, link := range map[string]func(outside, path string) error{
			"symbolic link":        func(outside, path string) error { return errors.Join(os.Remove(path), os.Symlink(outside, path)) },
			"hard link":            func(outside, path string) error { return errors.Join(os.Remove(path), os.Link(outside, path)) },
			"hard link in a store": func(outside, path string) error { return os.Link(outside, filepath.Join(path, "g")) },
		} {
			dir := t.TempDir()
			final, outside := filepath.Join(dir, "x"), filepath.Join(dir, "outside")
			write(t, outside, "theirs")
			isDir := strings.HasSuffix(what, "store")
			in := map[bool]string{true: "/f"}[isDir]
			write(t, final+in, "old")
			if os.Getuid() == 0 {
				if err := os.Chown(final, 1234, 2345); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.Chmod(final, 0o755), os.Chmod(outside, 0o600)); err != nil {
				t.Fatal(err)
			}
			s, err := place.NewStage(final, place.StageOptions{Directory: isDir, Force: force})
			if err != nil {
				t.Fatal(err)
			}
			write(t, s.Path+in, "new")
			if err := link(outside, s.Path); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(); err == nil {
				t.Errorf("%s, forced %t: Commit succeeded, want an error", what, force)
			}
			info, err := os.Stat(outside)
			if err != nil {
				t.Fatal(err)
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || info.Mode().Perm() != 0o600 || int(st.Uid) != os.Getuid() {
				t.Errorf("%s, forced %t: the file outside has mode %v and owner %d", what, force, info.Mode(), st.Uid)
			}
			if read(t, outside) != "theirs" || read(t, final+in) != "old" {
				t.Errorf("%s, forced %t: a file has changed", what, force)
			}
		}
	}
}

// TestMounts checks that List reports a mount point in a tree without listing the mounted file
// system, and that Commit does not replace the tree. The test runs itself again in a new mount
// namespace.
func TestMounts(t *testing.T) { //nolint:paralleltest // between fork and exec, a child holds the locks of other tests
	if os.Getenv("PLACE_TEST_MOUNTS") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestMounts$", "-test.v")
		c.Env = append(os.Environ(), "PLACE_TEST_MOUNTS=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if errorIs(err, unix.EPERM) {
			t.Skip("no right to mount")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") && !strings.Contains(string(out), "--- SKIP") {
			t.Errorf("the test in the new namespace failed: %v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	final, other := filepath.Join(dir, "x y"), filepath.Join(dir, "other")
	write(t, final+"/f", "old")
	write(t, other+"/kept", "1")
	s, err := place.NewStage(final, place.StageOptions{Directory: true})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.Path+"/f", "new")
	at := filepath.Join(final, "mnt")
	if err := os.Mkdir(at, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no bind mounts here: %v", err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	if e, err := place.List(final, 10); err != nil || len(e.Names) != 1 || !slices.Equal(e.Mounts, []string{"mnt"}) {
		t.Errorf("List: got %+v, %v, want one name and the mount point mnt", e, err)
	}
	if err := s.Commit(); err == nil {
		t.Error("Commit replaced a tree with a mount point")
	}
	if read(t, other+"/kept") != "1" || read(t, final+"/f") != "old" {
		t.Error("a file has changed")
	}
}

func errorIs(err error, errno syscall.Errno) bool {
	return err != nil && strings.Contains(err.Error(), errno.Error())
}
