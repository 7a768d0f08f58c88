//go:build unix

package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// names returns all names in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestPutRemovesStaleFiles checks that Put removes the temporary file of a dead writer
// of the same key, and keeps the temporary file of a running one.
func TestPutRemovesStaleFiles(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", "old")
	dir := filepath.Join(store, "a")
	left := filepath.Join(dir, file.TemporaryFor("k"))
	must(t, os.WriteFile(left, []byte("half"), 0o666))
	put(t, m, "a/k", "new")
	if got := names(t, dir); !slices.Equal(got, []string{"k"}) {
		t.Errorf("after a dead writer: want only the object, got %q", got)
	}

	living, err := os.Create(left)
	must(t, err)
	defer living.Close()
	must(t, unix.Flock(int(living.Fd()), unix.LOCK_EX))
	put(t, m, "a/k", "newer")
	if got := names(t, dir); !slices.Equal(got, []string{filepath.Base(left), "k"}) {
		t.Errorf("with a running writer: want its file and the object, got %q", got)
	}
	must(t, living.Close())
	put(t, m, "a/k", "newest")
	if got := names(t, dir); !slices.Equal(got, []string{"k"}) {
		t.Errorf("after the running writer ended: want only the object, got %q", got)
	}
	if got, err := get(t, m, "a/k"); err != nil || got != "newest" {
		t.Errorf("get: want \"newest\", got %q, %v", got, err)
	}
}

// TestPutKeepsLinks checks that Put removes only a regular file with the name of the
// temporary file, not a link with that name or its target.
func TestPutKeepsLinks(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "other", "content")
	must(t, os.Symlink("other", filepath.Join(store, file.TemporaryFor("k"))))
	must(t, os.Mkdir(filepath.Join(store, file.TemporaryFor("l")), 0o777))
	must(t, unix.Mkfifo(filepath.Join(store, file.TemporaryFor("m")), 0o666))
	want := append(names(t, store), "k", "l", "m")
	for _, key := range []string{"k", "l", "m"} {
		put(t, m, key, key)
	}
	slices.Sort(want)
	if got := names(t, store); !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	if got, err := get(t, m, "other"); err != nil || got != "content" {
		t.Errorf("get: want \"content\", got %q, %v", got, err)
	}
}

// sweeper is a body that replaces the temporary file on the first read. It simulates
// another writer that sweeps the file after it is created and before it is locked.
type sweeper struct {
	driver.Bytes
	left string
	gone *bool
}

func (s sweeper) ReadAt(p []byte, off int64) (int, error) {
	if !*s.gone {
		*s.gone = true
		if err := os.Remove(s.left); err != nil {
			return 0, err
		}
		if err := os.WriteFile(s.left, []byte("another's"), 0o666); err != nil {
			return 0, err
		}
	}
	return s.Bytes.ReadAt(p, off)
}

// TestWriterRestartsAfterRemoval checks that a writer whose temporary file was removed
// starts again, and does not publish the file that now has the name.
func TestWriterRestartsAfterRemoval(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	var gone bool
	body := sweeper{driver.Bytes("content"), filepath.Join(store, file.TemporaryFor("k")), &gone}
	_, err := m.Put(t.Context(), "k", body, &driver.PutOptions{})
	must(t, err)
	if got, err := get(t, m, "k"); err != nil || got != "content" || !gone {
		t.Errorf("want \"content\" from a restarted put, got %q, %v", got, err)
	}
	if got := names(t, store); !slices.Equal(got, []string{"k"}) {
		t.Errorf("want only the object in the directory, got %q", got)
	}
}
