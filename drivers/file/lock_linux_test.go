package file_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

func TestConformanceWithoutLocks(t *testing.T) {
	t.Parallel()
	g := target(t, "")
	g.Opener = file.Lockless{}
	conformance.TestWith(t, mapsuite.Suite(), g, &conformance.Options{Effort: conformance.Brief})
}

// increment adds 1 to the number in an object with a conditional put, and retries after
// conflicts.
func increment(t *testing.T, m driver.Map, key string) {
	t.Helper()
	for {
		data, info, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
		must(t, err)
		n, err := strconv.Atoi(string(data))
		must(t, err)
		_, err = m.Put(t.Context(), key, driver.Bytes(strconv.Itoa(n+1)), &driver.PutOptions{IfMatch: info.Version})
		if err == nil {
			return
		}
		if ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Fatal(err)
		}
	}
}

// child returns a command that runs the current test in another process.
func child(t *testing.T, store string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "NCZARR_TEST_WRITER="+store)
	return cmd
}

// TestConcurrentProcesses increments one object from several processes. No increment may be
// lost.
func TestConcurrentProcesses(t *testing.T) { //nolint:paralleltest // the test starts child processes
	const processes, each = 4, 200
	if store := os.Getenv("NCZARR_TEST_WRITER"); store != "" {
		m := open(t, store, driver.Update)
		for range each {
			increment(t, m, "a/n")
		}
		return
	}
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/n", "0")
	var wg sync.WaitGroup
	for range processes {
		cmd := child(t, store)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if got, err := get(t, m, "a/n"); err != nil || got != fmt.Sprint(processes*each) {
		t.Errorf("want %d, got %s, %v", processes*each, got, err)
	}
	if left := names(t, filepath.Join(store, "a")); len(left) != 1 {
		t.Errorf("want only the object in the directory, got %q", left)
	}
}

// TestKilledIncrement kills a process at each step of a conditional put. The next put
// must not wait for a lock, and must find either the old or the new content.
func TestKilledIncrement(t *testing.T) { //nolint:paralleltest // the test kills child processes
	if store := os.Getenv("NCZARR_TEST_WRITER"); store != "" {
		increment(t, open(t, store, driver.Update), "n")
		return
	}
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "n", "0")
	for at := 1; ; at++ {
		before, err := get(t, m, "n")
		must(t, err)
		out, err := killpoint.Run(child(t, store), killpoint.Plan{At: at})
		must(t, err)
		got, err := get(t, m, "n")
		n, _ := strconv.Atoi(before)
		if err != nil || got != before && got != strconv.Itoa(n+1) || out.Point == "" && got == before {
			t.Errorf("killed at %d, %s: want the old or the next number, got %s after %s, %v", at, out.Point, got, before, err)
		}
		increment(t, m, "n")
		if left := names(t, store); !slices.Equal(left, []string{"n"}) {
			t.Errorf("killed at %s: want no other files after another put, got %q", out.Point, left)
		}
		if out.Point == "" {
			return
		}
	}
}

// TestLockedObject checks that no call replaces or removes an object while another
// process holds its lock.
func TestLockedObject(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "k", "old")
	info, err := m.Stat(t.Context(), "k")
	must(t, err)
	holder, err := os.Open(filepath.Join(store, "k"))
	must(t, err, unix.Flock(int(holder.Fd()), unix.LOCK_EX))
	for what, change := range map[string]func(context.Context) error{
		"put": func(ctx context.Context) error {
			_, err := m.Put(ctx, "k", driver.Bytes("new"), &driver.PutOptions{})
			return err
		},
		"conditional put": func(ctx context.Context) error {
			_, err := m.Put(ctx, "k", driver.Bytes("new"), &driver.PutOptions{IfMatch: info.Version})
			return err
		},
		"delete": func(ctx context.Context) error { return m.Delete(ctx, "k", &driver.DeleteOptions{}) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := change(ctx); !ncerr.IsContext(err) {
			t.Errorf("%s of a locked object: want the error of the context, got %v", what, err)
		}
		cancel()
		if got, err := get(t, m, "k"); err != nil || got != "old" {
			t.Errorf("%s of a locked object: want the old content, got %q, %v", what, got, err)
		}
	}
	must(t, holder.Close())
	must(t, m.Delete(t.Context(), "k", &driver.DeleteOptions{}))
	if left := names(t, store); len(left) != 0 {
		t.Errorf("want an empty directory, got %q", left)
	}
}

// TestVersionsIncrease checks that a put sets a later time than that of the replaced
// object, so that versions do not repeat if clocks differ.
func TestVersionsIncrease(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{"rename": "", "fsync": `{"durability":"fsync"}`} {
		store := filepath.Join(t.TempDir(), "store")
		m, err := file.New().Open(t.Context(), driver.OpenSpec{Path: store, Mode: driver.Create, Options: []byte(options)})
		must(t, err)
		put(t, m, "k", "0")
		last := time.Now().Add(100 * 365 * 24 * time.Hour).Truncate(time.Hour)
		must(t, os.Chtimes(filepath.Join(store, "k"), last, last))
		for range 3 {
			was, err := m.Stat(t.Context(), "k")
			must(t, err)
			now, err := m.Put(t.Context(), "k", driver.Bytes("1"), &driver.PutOptions{IfMatch: was.Version})
			must(t, err)
			is, err := m.Stat(t.Context(), "k")
			if err != nil || is != now || !now.ModTime.After(was.ModTime) {
				t.Errorf("%s: put returns %+v after %+v, stat %+v, %v", name, now, was, is, err)
			}
		}
		if left := names(t, store); !slices.Equal(left, []string{"k"}) {
			t.Errorf("want only the object in the directory, got %q", left)
		}
		must(t, m.Close(t.Context()))
	}
}

// TestPutOverLinks checks that a put replaces a dangling link and a link to an object. A
// condition applies to the target of the link.
func TestPutOverLinks(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", "target")
	must(t, os.Symlink("nothing", filepath.Join(store, "broken")), os.Symlink("a/k", filepath.Join(store, "link")), os.Symlink("a", filepath.Join(store, "dir")))
	put(t, m, "broken", "x")
	info, err := m.Stat(t.Context(), "link")
	must(t, err)
	_, err = m.Put(t.Context(), "link", driver.Bytes("x"), &driver.PutOptions{IfMatch: info.Version})
	must(t, err)
	for _, key := range []string{"link", "dir"} {
		_, err = m.Put(t.Context(), key, driver.Bytes("y"), &driver.PutOptions{IfMatch: info.Version})
		wantKind(t, key, err, ncerr.ErrConflict)
	}
	for key, want := range map[string]string{"broken": "x", "link": "x", "a/k": "target"} {
		if got, err := get(t, m, key); err != nil || got != want {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
}

// TestLockDetection checks that opening a store detects whether the file system has
// locks, with an existing file or with a temporary one.
func TestLockDetection(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	must(t, os.Chmod(filepath.Dir(store), 0o755), os.Mkdir(filepath.Join(store, "v"), 0o777), os.Chmod(filepath.Join(store, "v"), 0o777), os.Chmod(store, 0o755))
	has := func(mode driver.Mode) bool {
		m, err := file.New().Open(t.Context(), driver.OpenSpec{Path: store, Mode: mode})
		must(t, err)
		defer m.Close(t.Context())
		return m.Capabilities().IfMatch
	}
	if !has(driver.Update) || !has(driver.Read) {
		t.Error("the driver detects no locks")
	}
	if left := names(t, store); !slices.Equal(left, []string{"v"}) {
		t.Errorf("want only v in the directory, got %q", left)
	}
	unprivileged(func() {
		if os.Getuid() == 0 && has(driver.Update) {
			t.Error("the driver detects locks without a file to lock")
		}
	})
	must(t, os.WriteFile(filepath.Join(store, ".zgroup"), nil, 0o644))
	unprivileged(func() {
		if !has(driver.Update) {
			t.Error("the driver detects no locks with a file to lock")
		}
	})
}
