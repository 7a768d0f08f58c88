package place_test

import (
	"bytes"
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

// The entries of a directory are seen as the system gives them.
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
	if want := []string{"fifo (a named pipe)", "link (a symbolic link)"}; !slices.Equal(e.Odd, want) {
		t.Errorf("want %q, got %q", want, e.Odd)
	}
	if _, err := place.List(dir, 3); err == nil {
		t.Error("more entries than the limit are no error")
	}
}

// Owner, mode and extended attributes of what is replaced are kept, and nobody
// can look into the stage before.
func TestCommitKeepsAttributes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := filepath.Join(dir, "x")
	write(t, final+"/f", "old")
	var want []byte
	if err := unix.Setxattr(final, "user.note", []byte("mine"), 0); err == nil {
		want = []byte("mine")
	} else {
		t.Logf("no extended attributes here: %v", err)
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
	s, err := place.NewStage(final, place.StageOptions{Directory: true})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(s.Path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the stage: %v, %v", info.Mode(), err)
	}
	write(t, s.Path+"/sub/f", "new")
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(final)
	if err != nil || info.Mode().Perm() != 0o750 || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("mode: want 0750 and setgid, got %v, %v", info.Mode(), err)
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
		t.Errorf("extended attribute: %q, %v", got[:max(n, 0)], err)
	}
}

// Nothing that is mounted in a tree is listed, removed or moved. The test runs
// again in a mount namespace of its own.
func TestMounts(t *testing.T) {
	t.Parallel()
	if os.Getenv("PLACE_TEST_MOUNTS") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestMounts$", "-test.v")
		c.Env = append(os.Environ(), "PLACE_TEST_MOUNTS=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if errorIs(err, unix.EPERM) {
			t.Skip("no right to mount")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") && !strings.Contains(string(out), "--- SKIP") {
			t.Errorf("%v\n%s", err, out)
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
		t.Errorf("listed %+v, %v", e, err)
	}
	if err := s.Commit(); err == nil {
		t.Error("a tree with a mount point was replaced")
	}
	if read(t, other+"/kept") != "1" || read(t, final+"/f") != "old" {
		t.Error("something was lost")
	}
}

func errorIs(err error, errno syscall.Errno) bool {
	return err != nil && strings.Contains(err.Error(), errno.Error())
}
