package zip_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// TestLargeContentIsNotKeptInMemory checks that large content is written to the spill
// file even if memory is available.
func TestLargeContentIsNotKeptInMemory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zip")
	m := openZip(t, path, driver.Create, `{"spill": "1GiB"}`)
	large, small := strings.Repeat("large", 200_000), strings.Repeat("s", 1000)
	put(t, m, "large", large)
	put(t, m, "small", small)
	if n := m.InMemory(); n != int64(len(small)) {
		t.Errorf("want only the small object in memory, got %d bytes", n)
	}
	wantContent(t, m, map[string]string{"large": large, "small": small})
	flush(t, m)
	if got := stdContent(t, path); got["large"] != large || got["small"] != small || len(got) != 2 {
		t.Error("the archive has the wrong content")
	}
}

// TestStaleFilesAreRemoved checks that files left by a killed writer are deleted, that
// files in use, new files and files with other names are kept, and that readers delete
// nothing.
func TestStaleFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.zip")
	if err := os.WriteFile(path, stdZip(t, "", entry{name: "a", content: "1"}), 0o666); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	files := map[string]bool{ // the value reports whether the file stays
		".x.zip.0123456789abcdef.tmp":  false,
		".x.zip.fedcba9876543210.tmp":  true, // new
		".x.zip.0123456789abcdeg.tmp":  true,
		".x.zip.0123456789abcdef0.tmp": true,
		".y.zip.0123456789abcdef.tmp":  true,
		"x.zip.0123456789abcdef.tmp":   true,
	}
	for name := range files {
		full := filepath.Join(dir, name)
		if err := os.WriteFile(full, []byte("PK"), 0o666); err != nil {
			t.Fatal(err)
		}
		if name != ".x.zip.fedcba9876543210.tmp" {
			if err := os.Chtimes(full, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	used, err := zipdriver.MakeTemp(dir, "x.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	if err := os.Chtimes(used.Name(), old, old); err != nil {
		t.Fatal(err)
	}
	files[filepath.Base(used.Name())] = true
	if runtime.GOOS != "windows" {
		link := ".x.zip.00000000000000ff.tmp"
		if err := os.Symlink(path, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		files[link] = true
	}
	openZip(t, path, driver.Read, "")
	if !exists(filepath.Join(dir, ".x.zip.0123456789abcdef.tmp")) {
		t.Error("a reader deleted a file")
	}
	m := openZip(t, path, driver.Update, "")
	for name, stays := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: want the file to remain: %t, got %v", name, stays, err)
		}
	}
	put(t, m, "b", "2")
	flush(t, m)
	wantContent(t, openZip(t, path, driver.Read, ""), map[string]string{"a": "1", "b": "2"})
}
