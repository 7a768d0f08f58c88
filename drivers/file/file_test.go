package file_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// target returns a target that uses a separate directory for every check.
func target(t *testing.T, options string) *mapsuite.Target {
	t.Helper()
	var n atomic.Int64
	dir := t.TempDir()
	return &mapsuite.Target{Opener: file.New(), NewSpec: func() (driver.OpenSpec, func(), error) {
		path := filepath.Join(dir, fmt.Sprint(n.Add(1)), "store")
		return driver.OpenSpec{Path: path, Options: []byte(options)}, nil, nil
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Test(t, mapsuite.Suite(), target(t, ""))
}

func TestConformanceSynced(t *testing.T) {
	t.Parallel()
	conformance.TestWith(t, mapsuite.Suite(), target(t, `{"durability":"fsync"}`), &conformance.Options{
		Select: []string{"map.put.*", "map.open.*", "map.delete.*", "map.durable.*"}, Effort: conformance.Brief,
	})
}

func TestConformanceWithoutFastOpen(t *testing.T) {
	t.Parallel()
	g := target(t, "")
	g.Opener = file.Slow{}
	conformance.TestWith(t, mapsuite.Suite(), g, &conformance.Options{Effort: conformance.Brief})
}

// open opens a store in the given mode and closes it after the test.
func open(t testing.TB, path string, mode driver.Mode) driver.Map {
	t.Helper()
	m, err := file.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.WithoutCancel(t.Context())) })
	return m
}

func put(t testing.TB, m driver.Map, key, content string) {
	t.Helper()
	if _, err := m.Put(t.Context(), key, driver.Bytes(content), &driver.PutOptions{}); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

func get(t testing.TB, m driver.Map, key string) (string, error) {
	t.Helper()
	data, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
	return string(data), err
}

func list(t testing.TB, m driver.Map, prefix string, recursive bool) ([]string, error) {
	t.Helper()
	var keys []string
	for e, err := range m.List(t.Context(), prefix, &driver.ListOptions{Recursive: recursive}) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, e.Key)
	}
	return keys, nil
}

func wantKind(t *testing.T, what string, err error, want ncerr.Kind) {
	t.Helper()
	if err == nil || ncerr.KindOf(err) != want {
		t.Errorf("%s: want %s, got %v", what, want.Name(), err)
	}
}

// must ends the test if one of the errors is not nil.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestRemovedRoot(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string]func(path string) error{
		"removed":  os.RemoveAll,
		"moved":    func(p string) error { return os.Rename(p, p+"-moved") },
		"replaced": func(p string) error { return errors.Join(os.Rename(p, p+"-moved"), os.Mkdir(p, 0o777)) },
	} {
		path := filepath.Join(t.TempDir(), "store")
		m := open(t, path, driver.Create)
		put(t, m, "a/b", "x")
		must(t, vanish(path))
		_, err := get(t, m, "a/absent")
		wantKind(t, name+": get", err, ncerr.ErrIO)
		_, err = m.Stat(t.Context(), "absent")
		wantKind(t, name+": stat", err, ncerr.ErrIO)
		_, err = list(t, m, "", true)
		wantKind(t, name+": list", err, ncerr.ErrIO)
		wantKind(t, name+": delete", m.Delete(t.Context(), "absent", nil), ncerr.ErrIO)
		wantKind(t, name+": flush", m.Flush(t.Context()), ncerr.ErrIO)
	}
}

func TestPutIntoRemovedRoot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	m := open(t, path, driver.Create)
	must(t, os.RemoveAll(path))
	for _, key := range []string{"k", "a/k"} {
		_, err := m.Put(t.Context(), key, driver.Bytes("x"), &driver.PutOptions{})
		wantKind(t, "put "+key, err, ncerr.ErrIO)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the root was created again")
	}
}

func TestSymlinkedRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	put(t, open(t, target, driver.Create), "a/b", "x")
	must(t, os.Symlink("target", link))
	m := open(t, link, driver.Update)
	if got, err := get(t, m, "a/b"); err != nil || got != "x" {
		t.Errorf("get through the link: want \"x\", got %q, %v", got, err)
	}
	put(t, m, "c", "y")
	m = open(t, link, driver.Create)
	if keys, err := list(t, m, "", true); err != nil || len(keys) != 0 {
		t.Errorf("list after creating the store again: want no keys, got %q, %v", keys, err)
	}
	must(t, file.New().Remove(t.Context(), driver.OpenSpec{Path: link}))
	for _, p := range []string{target, link} {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists", filepath.Base(p))
		}
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, outside := filepath.Join(dir, "store"), filepath.Join(dir, "outside")
	must(t, os.Mkdir(outside, 0o777), os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o666))
	m := open(t, store, driver.Create)
	put(t, m, "in/k", "inside")
	at := func(name string) string { return filepath.Join(store, name) }
	must(t, os.Symlink("in/k", at("file")), os.Symlink("in", at("dir")),
		os.Symlink("../outside", at("out")), os.Symlink("../outside/secret", at("outfile")),
		os.Symlink(outside, at("abs")), os.Symlink("nowhere", at("dangling")),
		os.Symlink(".", at("in/loop")), os.Symlink("..", at("in/up")), os.Symlink("self", at("self")))
	for _, opener := range []driver.Opener{file.New(), file.Slow{}} {
		m, err := opener.Open(t.Context(), driver.OpenSpec{Path: store, Mode: driver.Update})
		must(t, err)
		for key, want := range map[string]string{"file": "inside", "dir/k": "inside", "in/loop/k": "inside"} {
			if got, err := get(t, m, key); err != nil || got != want {
				t.Errorf("%q: want %q, got %q, %v", key, want, got, err)
			}
		}
		for key, want := range map[string]ncerr.Kind{
			"out/secret": ncerr.ErrPermission, "outfile": ncerr.ErrPermission, "abs/secret": ncerr.ErrPermission,
			"out/absent": ncerr.ErrPermission, "dangling": ncerr.ErrIO, "self": ncerr.ErrIO, "in": ncerr.ErrNotFound, "dir": ncerr.ErrNotFound,
		} {
			_, err := get(t, m, key)
			wantKind(t, "get "+key, err, want)
			_, err = m.Stat(t.Context(), key)
			wantKind(t, "stat "+key, err, want)
		}
		_, err = m.Put(t.Context(), "out/new", driver.Bytes("x"), &driver.PutOptions{})
		wantKind(t, "put through a link that leaves", err, ncerr.ErrPermission)
		wantKind(t, "delete through a link that leaves", m.Delete(t.Context(), "out/secret", nil), ncerr.ErrPermission)
		want := []string{"abs", "dangling", "dir/k", "file", "in/k", "out", "outfile", "self"}
		if keys, err := list(t, m, "", true); err != nil || !slices.Equal(keys, want) {
			t.Errorf("list: want %q, got %q, %v", want, keys, err)
		}
		must(t, m.Close(t.Context()))
	}
	put(t, m, "outfile", "replaced")
	must(t, m.Delete(t.Context(), "abs", nil), m.Delete(t.Context(), "dir/k", nil))
	open(t, store, driver.Create)
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "s" {
		t.Errorf("a file outside the store was changed: %q, %v", got, err)
	}
}

func TestReservedNames(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	for _, key := range []string{".nczarr.tmp.x", "a/.nczarr.tmp.", "a/.NCZARR.TMP.1/b"} {
		_, err := m.Put(t.Context(), key, driver.Bytes("x"), &driver.PutOptions{})
		wantKind(t, "put "+key, err, ncerr.ErrBadName)
		_, err = get(t, m, key)
		wantKind(t, "get "+key, err, ncerr.ErrBadName)
	}
	put(t, m, ".nczarr.tmp", "similar, but not reserved")
	must(t, os.MkdirAll(filepath.Join(store, "a/b"), 0o777),
		os.WriteFile(filepath.Join(store, "a/b/.nczarr.tmp.left"), []byte("half"), 0o666),
		os.WriteFile(filepath.Join(store, "bad\xffname"), nil, 0o666),
		os.WriteFile(filepath.Join(store, "bad\nname"), nil, 0o666))
	for _, recursive := range []bool{false, true} {
		if keys, err := list(t, m, "", recursive); err != nil || !slices.Equal(keys, []string{".nczarr.tmp"}) {
			t.Errorf("list: want only .nczarr.tmp, got %q, %v", keys, err)
		}
	}
	must(t, os.Remove(filepath.Join(store, "bad\xffname")), os.Remove(filepath.Join(store, "bad\nname")))
	open(t, store, driver.Create)
	if left, err := os.ReadDir(store); err != nil || len(left) != 0 {
		t.Errorf("want no files after creating the store again, got %v, %v", left, err)
	}
}

func TestNoLeftoverFiles(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "a/k", "x")
	ctx, cancel := context.WithCancel(t.Context())
	body := failing{size: 5 << 20, fail: func() error { cancel(); return nil }}
	_, err := m.Put(ctx, "a/canceled", body, &driver.PutOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put with a canceled context: want context.Canceled, got %v", err)
	}
	_, err = m.Put(t.Context(), "a/failed", failing{size: 5 << 20, fail: func() error { return errors.New("torn") }}, &driver.PutOptions{})
	wantKind(t, "body that fails", err, ncerr.ErrIO)
	_, err = m.Put(t.Context(), "a", driver.Bytes("x"), &driver.PutOptions{})
	wantKind(t, "occupied", err, ncerr.ErrObjectExists)
	_, err = m.Put(t.Context(), "a/k", driver.Bytes("y"), &driver.PutOptions{IfAbsent: true})
	wantKind(t, "exists", err, ncerr.ErrObjectExists)
	names, err := os.ReadDir(filepath.Join(store, "a"))
	if err != nil || len(names) != 1 {
		t.Errorf("want one file after the failed puts, got %v, %v", names, err)
	}
}

// failing is a body of zeros that calls fail for reads in its second half.
type failing struct {
	size int64
	fail func() error
}

func (b failing) Size() int64 { return b.size }

func (b failing) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off+int64(len(p)) > b.size/2 {
		if err := b.fail(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func TestEmptyDirectoriesAreIgnored(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	must(t, os.MkdirAll(filepath.Join(store, "e/f/g"), 0o777), os.MkdirAll(filepath.Join(store, "x/y"), 0o777))
	put(t, m, "x/z/k", "1")
	if keys, err := list(t, m, "", false); err != nil || !slices.Equal(keys, []string{"x/"}) {
		t.Errorf("list: want only x/, got %q, %v", keys, err)
	}
	put(t, m, "e/f", "in place of empty directories")
	if got, err := get(t, m, "e/f"); err != nil || got != "in place of empty directories" {
		t.Errorf("get: want the new content, got %q, %v", got, err)
	}
	if _, err := m.Put(t.Context(), "x/y", driver.Bytes("2"), &driver.PutOptions{IfAbsent: true}); err != nil {
		t.Errorf("put if absent in place of an empty directory: %v", err)
	}
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, []byte("precious"), 0o666))
	for name, tc := range map[string]struct {
		spec driver.OpenSpec
		want ncerr.Kind
	}{
		"no path":               {driver.OpenSpec{}, ncerr.ErrInvalid},
		"bad durability":        {driver.OpenSpec{Path: plain, Options: []byte(`{"durability":"maybe"}`)}, ncerr.ErrInvalid},
		"bad option":            {driver.OpenSpec{Path: plain, Options: []byte(`{"durable":"fsync"}`)}, ncerr.ErrInvalid},
		"read a file":           {driver.OpenSpec{Path: plain}, ncerr.ErrNoDataset},
		"create over a file":    {driver.OpenSpec{Path: plain, Mode: driver.Create}, ncerr.ErrExists},
		"exclusive over a file": {driver.OpenSpec{Path: plain, Mode: driver.CreateExclusive}, ncerr.ErrExists},
		"below a file":          {driver.OpenSpec{Path: plain + "/x"}, ncerr.ErrNoDataset},
	} {
		_, err := file.New().Open(t.Context(), tc.spec)
		wantKind(t, name, err, tc.want)
	}
	wantKind(t, "remove a file", file.New().Remove(t.Context(), driver.OpenSpec{Path: plain}), ncerr.ErrNoDataset)
	if got, err := os.ReadFile(plain); err != nil || string(got) != "precious" {
		t.Errorf("the file was changed: %q, %v", got, err)
	}
}

func TestLongNames(t *testing.T) {
	t.Parallel()
	m := open(t, filepath.Join(t.TempDir(), "store"), driver.Create)
	long := strings.Repeat("n", 256)
	for _, key := range []string{long, long + "/k", "a/" + long} {
		_, err := m.Put(t.Context(), key, driver.Bytes("x"), &driver.PutOptions{})
		wantKind(t, "put", err, ncerr.ErrBadName)
		_, err = get(t, m, key)
		wantKind(t, "get", err, ncerr.ErrBadName)
	}
	put(t, m, long[:255], "fits")
}

func TestOtherSpelling(t *testing.T) {
	t.Parallel()
	tree := map[string][]string{".": {"Temp", "b"}, "Temp": {"X"}, "temp": {"X"}, "b": {}}
	exists := func(path string) bool { // like a file system that ignores case
		return slices.ContainsFunc([]string{"Temp", "Temp/X", "b"}, func(s string) bool { return strings.EqualFold(s, path) })
	}
	names := func(dir string) ([]string, error) { return tree[dir], nil }
	for key, want := range map[string]string{
		"Temp/X": "", "temp/X": "temp", "Temp/x": "Temp/x", "TEMP": "TEMP", "b/new": "", "B/new": "B", "new/Temp": "",
	} {
		if got, err := file.OtherSpelling(key, exists, names); err != nil || got != want {
			t.Errorf("%q: want %q, got %q, %v", key, want, got, err)
		}
	}
}

func TestFoldingIsDetected(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	m := open(t, store, driver.Create)
	put(t, m, "probe", "x")
	_, err := os.Stat(filepath.Join(store, "PROBE"))
	want := err == nil
	for _, m := range []driver.Map{m, open(t, store, driver.Update)} {
		if got, _ := file.Folds(m); got != want {
			t.Errorf("want folds %v, got %v", want, got)
		}
	}
	if left, err := os.ReadDir(store); err != nil || len(left) != 1 {
		t.Errorf("the probe left files: %v, %v", left, err)
	}
}

func TestSharedWithAnotherMap(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	a := open(t, store, driver.Create)
	b := open(t, store, driver.Update)
	put(t, a, "k", "from a")
	if got, err := get(t, b, "k"); err != nil || got != "from a" {
		t.Errorf("b reads %q, %v", got, err)
	}
	must(t, b.Delete(t.Context(), "k", nil))
	_, err := get(t, a, "k")
	wantKind(t, "a reads an object that b deleted", err, ncerr.ErrNotFound)
}

func BenchmarkList100000(b *testing.B) {
	for _, shape := range []struct {
		name string
		key  func(i int) string
	}{
		{"flat", func(i int) string { return fmt.Sprintf("v/%d.%d", i/1000, i%1000) }},
		{"nested", func(i int) string { return fmt.Sprintf("v/%d/%d/%d", i/2500, i/50%50, i%50) }},
	} {
		b.Run(shape.name, func(b *testing.B) {
			store := filepath.Join(b.TempDir(), "store")
			m := open(b, store, driver.Create)
			for i := range 100000 {
				path := filepath.Join(store, shape.key(i))
				if i%50 == 0 {
					must(b, os.MkdirAll(filepath.Dir(path), 0o777))
				}
				must(b, os.WriteFile(path, nil, 0o666))
			}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range m.List(b.Context(), "", &driver.ListOptions{Recursive: true}) {
					must(b, err)
					n++
				}
				if n != 100000 {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for name, opener := range map[string]driver.Opener{"fast": file.New(), "slow": file.Slow{}} {
		for _, size := range []int{0, 4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/size=%d", name, size), func(b *testing.B) {
				m, err := opener.Open(b.Context(), driver.OpenSpec{Path: filepath.Join(b.TempDir(), "s"), Mode: driver.Create})
				must(b, err)
				key := "group/var/c/0/1/2"
				put(b, m, key, string(make([]byte, size)))
				alloc := driver.Into(make([]byte, size))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					_, _, err := m.Get(b.Context(), key, &driver.GetOptions{}, alloc)
					must(b, err)
				}
			})
		}
	}
}

func BenchmarkPut(b *testing.B) {
	m := open(b, filepath.Join(b.TempDir(), "s"), driver.Create)
	content := string(make([]byte, 4<<10))
	for b.Loop() {
		put(b, m, "group/var/c/0/1/2", content)
	}
}
