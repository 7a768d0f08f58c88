package file_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"golang.org/x/sys/unix"
)

func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	open(t, store, driver.Create)
	must(t, unix.Mkfifo(filepath.Join(store, "pipe"), 0o666))
	for _, opener := range []driver.Opener{file.New(), file.Slow{}} {
		m, err := opener.Open(t.Context(), driver.OpenSpec{Path: store, Mode: driver.Update})
		must(t, err)
		_, err = get(t, m, "pipe")
		wantKind(t, "get", err, ncerr.ErrUnsupported)
		_, err = m.Stat(t.Context(), "pipe")
		wantKind(t, "stat", err, ncerr.ErrUnsupported)
		_, err = get(t, m, "pipe/k")
		wantKind(t, "get below", err, ncerr.ErrNotFound)
		_, err = m.Put(t.Context(), "pipe/k", driver.Bytes("x"), &driver.PutOptions{})
		wantKind(t, "put below", err, ncerr.ErrObjectExists)
		if keys, err := list(t, m, "", true); err != nil || len(keys) != 0 {
			t.Errorf("list: want no keys, got %q, %v", keys, err)
		}
		if keys, err := list(t, m, "pipe/", true); err != nil || len(keys) != 0 {
			t.Errorf("list below the pipe: want no keys, got %q, %v", keys, err)
		}
		must(t, m.Close(t.Context()))
	}
	_, err := file.New().Open(t.Context(), driver.OpenSpec{Path: filepath.Join(store, "pipe")})
	wantKind(t, "open a pipe as a store", err, ncerr.ErrNoDataset)
}

// unprivileged runs f in a thread without root's rights to files.
func unprivileged(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Getuid() == 0 {
			_, _ = unix.SetfsuidRetUid(65534)
		}
		f()
	}()
	<-done
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
	store, locked := filepath.Join(dir, "store"), filepath.Join(dir, "locked")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", "x")
	put(t, m, "shut/k", "x")
	must(t, os.MkdirAll(locked+"/s", 0o777), os.Chmod(filepath.Join(store, "a/k"), 0), os.Chmod(filepath.Join(store, "a"), 0o555),
		os.Chmod(filepath.Join(store, "shut"), 0), os.Chmod(locked, 0))
	t.Cleanup(func() {
		_ = os.Chmod(locked, 0o700)
		_ = os.Chmod(store+"/a", 0o700)
		_ = os.Chmod(store+"/shut", 0o700)
	})
	unprivileged(func() {
		_, err := get(t, m, "a/k")
		wantKind(t, "get of an unreadable file", err, ncerr.ErrPermission)
		_, err = get(t, m, "shut/absent")
		wantKind(t, "get below an inaccessible directory", err, ncerr.ErrPermission)
		_, err = m.Stat(t.Context(), "shut/k")
		wantKind(t, "stat below an inaccessible directory", err, ncerr.ErrPermission)
		_, err = list(t, m, "", true)
		wantKind(t, "list of an inaccessible directory", err, ncerr.ErrPermission)
		for _, recursive := range []bool{false, true} {
			if _, err = list(t, m, "", recursive); err == nil || !strings.Contains(err.Error(), `read directory "shut/"`) {
				t.Errorf("list of an inaccessible directory, recursive %t: want its name, got %v", recursive, err)
			}
		}
		for _, key := range []string{"a/k", "a/new", "a/sub/new"} {
			_, err = m.Put(t.Context(), key, driver.Bytes("y"), &driver.PutOptions{})
			wantKind(t, "put into a read-only directory", err, ncerr.ErrPermission)
		}
		wantKind(t, "delete from a read-only directory", m.Delete(t.Context(), "a/k", nil), ncerr.ErrPermission)
		_, err = file.New().Open(t.Context(), driver.OpenSpec{Path: locked + "/s"})
		wantKind(t, "open below an inaccessible directory", err, ncerr.ErrPermission)
		_, err = file.New().Open(t.Context(), driver.OpenSpec{Path: store + "/a", Mode: driver.CreateExclusive})
		wantKind(t, "create over a directory", err, ncerr.ErrExists)
		_, err = file.New().Open(t.Context(), driver.OpenSpec{Path: store + "/a", Mode: driver.Create})
		wantKind(t, "create in a read-only directory", err, ncerr.ErrPermission)
	})
	must(t, os.Chmod(filepath.Join(store, "a/k"), 0o600))
	if got, err := get(t, m, "a/k"); err != nil || got != "x" {
		t.Errorf("get after the failed calls: want \"x\", got %q, %v", got, err)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("needs permission to mount a small file system: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	store := filepath.Join(dir, "store")
	m := open(t, store, driver.Create)
	put(t, m, "k", "old")
	_, err := m.Put(t.Context(), "k", driver.Bytes(make([]byte, 1<<20)), &driver.PutOptions{})
	wantKind(t, "put", err, ncerr.ErrIO)
	if !strings.Contains(err.Error(), "no space left") {
		t.Errorf("want the reason in the error, got %v", err)
	}
	if got, err := get(t, m, "k"); err != nil || got != "old" {
		t.Errorf("get after the failed put: want \"old\", got %q, %v", got, err)
	}
	if left, err := os.ReadDir(store); err != nil || len(left) != 1 {
		t.Errorf("want only the object in the directory, got %v, %v", left, err)
	}
	must(t, unix.Unmount(dir, unix.MNT_DETACH))
	_, err = get(t, m, "absent")
	wantKind(t, "get after the mount has vanished", err, ncerr.ErrIO)
}

// TestKilledWriter kills a process that repeatedly overwrites one object. The object
// must be complete each time, and the next put must remove leftover files.
func TestKilledWriter(t *testing.T) { //nolint:paralleltest // the test kills child processes
	store := os.Getenv("NCZARR_TEST_WRITER")
	if store != "" {
		m := open(t, store, driver.Update)
		for i := 0; ; i++ {
			put(t, m, "a/k", strings.Repeat(string(rune('a'+i%26)), 100000+i%26))
		}
	}
	store = filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", strings.Repeat("a", 100000))
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "NCZARR_TEST_WRITER="+store)
		out, err := killpoint.Run(cmd, killpoint.Plan{At: 8 + round})
		if err != nil || out.Code != -1 {
			t.Fatalf("round %d: want a killed program, got %+v, %v", round, out, err)
		}
		got, err := get(t, m, "a/k")
		if err != nil || got == "" || bytes.Count([]byte(got), []byte{got[0]}) != len(got) || len(got) != 100000+int(got[0]-'a') {
			t.Errorf("round %d: want one complete content, got %d bytes, %v", round, len(got), err)
		}
		if keys, err := list(t, m, "", true); err != nil || len(keys) != 1 {
			t.Errorf("round %d: list: want one key, got %q, %v", round, keys, err)
		}
		put(t, m, "a/k", got)
		if left := names(t, filepath.Join(store, "a")); len(left) != 1 {
			t.Errorf("round %d, killed at %s: want no other files after another put, got %q", round, out.Point, left)
		}
	}
}

// TestListInfo checks that a listing with Info returns what Stat returns, without failing
// for a link that cannot be followed.
func TestListInfo(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", "content")
	put(t, m, "z", "")
	must(t, os.Symlink("nowhere", filepath.Join(store, "link")))
	got := map[string]driver.Info{}
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true, Info: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Key] = e.Info
	}
	for _, key := range []string{"a/k", "z"} {
		if want, err := m.Stat(t.Context(), key); err != nil || got[key] != want || want.Version == "" {
			t.Errorf("%q: want %+v, got %+v, %v", key, want, got[key], err)
		}
	}
	if got["link"] != (driver.Info{Size: -1}) || len(got) != 3 {
		t.Errorf("want three entries and no information about the broken link, got %+v", got)
	}
}

// TestListingTakesNoStats checks that listed entries contain nothing that requires a stat
// call.
func TestListingTakesNoStats(t *testing.T) {
	t.Parallel()
	m := open(t, filepath.Join(t.TempDir(), "store"), driver.Create)
	put(t, m, "k", "content")
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
		if err != nil || e.Info.Size != -1 || e.Info.Version != "" || !e.Info.ModTime.IsZero() {
			t.Errorf("want an entry with only a key, got %+v, %v", e, err)
		}
	}
}
