package layer_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// TestCacheDamage checks that reads return the correct content if any byte of a cache file
// is changed, or the file is truncated or extended.
func TestCacheDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, base, _, stats := cached(t, layer.CacheOptions{Dir: dir})
	putOne(t, base, "some content")
	getOne(t, c, driver.GetOptions{})
	name := onlyFile(t, dir)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for _, damaged := range [][]byte{flip(whole, i), whole[:i], append(slices.Clone(whole), 'x')} {
			if err := os.WriteFile(name, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := getOne(t, c, driver.GetOptions{}); got != "some content" {
				t.Fatalf("damage at byte %d: got %q, want the content of the object", i, got)
			}
		}
	}
	if stats.Hits.Load() > 0 || stats.Damaged.Load() == 0 {
		t.Errorf("got %d hits and %d damaged entries, want no hits", stats.Hits.Load(), stats.Damaged.Load())
	}
}

func flip(p []byte, i int) []byte {
	q := slices.Clone(p)
	q[i] ^= 0x40
	return q
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	names := allFiles(t, dir)
	if len(names) != 1 {
		t.Fatalf("want one file, got %q", names)
	}
	return names[0]
}

// TestCacheEntryBelongsToOneName checks that a cache file is never used for another
// object or range with the same version. Two ranges of an object have the same version,
// and so may two objects if the server derives versions from times and sizes.
func TestCacheEntryBelongsToOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, base, _, stats := cached(t, layer.CacheOptions{Dir: dir})
	putOne(t, base, "one, two and three")
	parts := map[driver.Range]string{{Offset: 0, Length: 3}: "one", {Offset: 5, Length: 3}: "two", {Offset: 13, Length: 5}: "three"}
	for r := range parts {
		getOne(t, c, driver.GetOptions{Range: &r})
	}
	names := allFiles(t, dir)
	if len(names) != len(parts) {
		t.Fatalf("got %d files, want one per range", len(names))
	}
	first, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[1:] { // write the content of each file to the previous one
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(names[slices.Index(names, name)-1], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(names[len(names)-1], first, 0o600); err != nil {
		t.Fatal(err)
	}
	for r, want := range parts {
		if got := getOne(t, c, driver.GetOptions{Range: &r}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
	if stats.Damaged.Load() != int64(len(parts)) {
		t.Errorf("got %d damaged entries, want one per range", stats.Damaged.Load())
	}
}

// TestDeletedCache checks that the cache stores content again after another process has
// deleted the whole directory.
func TestDeletedCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	c, base, _, stats := cached(t, layer.CacheOptions{Dir: dir})
	putOne(t, base, "content")
	for i := range int64(3) {
		getOne(t, c, driver.GetOptions{})
		if got := getOne(t, c, driver.GetOptions{}); got != "content" || stats.Hits.Load() != i+1 || stats.WriteErrors.Load() > 0 {
			t.Errorf("got %q after %d hits", got, stats.Hits.Load())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func allFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// discardingMap is a Map that accepts every Put and stores nothing.
type discardingMap struct{ driver.Base }

func (discardingMap) Put(context.Context, string, driver.Body, *driver.PutOptions) (driver.Info, error) {
	return driver.Info{}, nil
}

// TestCacheForgetsWrites checks that the cache does not keep a record of every write in
// memory.
func TestCacheForgetsWrites(t *testing.T) { //nolint:paralleltest // the test measures memory and must run alone
	c, err := layer.Cache(discardingMap{}, layer.CacheOptions{Dir: t.TempDir(), MaxAge: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range 20_000 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("%01000d", i), driver.Bytes("x"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 4<<20 {
		t.Errorf("the cache holds %d bytes for old writes", grown)
	}
	runtime.KeepAlive(c)
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
