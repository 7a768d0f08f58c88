package zip_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// openZip opens an archive file and closes it when the test ends.
func openZip(t testing.TB, path string, mode driver.Mode, options string) *zipdriver.Map {
	t.Helper()
	m, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode, Options: []byte(options), Documents: zarr.DocNames()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return m.(*zipdriver.Map)
}

// saved writes an archive file and returns its path.
func saved(t testing.TB, archive []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.zip")
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func put(t testing.TB, m driver.Map, key, content string) {
	t.Helper()
	if _, err := m.Put(t.Context(), key, driver.Bytes(content), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, m driver.Map, key string) {
	t.Helper()
	if err := m.Delete(t.Context(), key, &driver.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, m driver.Map) {
	t.Helper()
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, m driver.Map, key string) string {
	t.Helper()
	b, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return string(b)
}

// content reads everything that a Map lists, except the keys of unreadable members: see
// TestUnreadableMemberIsNotMissing.
func content(t testing.TB, m driver.Map) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[e.Key]; twice {
			t.Fatalf("%q is listed twice", e.Key)
		}
		if unread(t, m, e) {
			continue
		}
		all[e.Key] = get(t, m, e.Key)
	}
	return all
}

// unread reports whether a key is listed only because the name of an unreadable member
// suggests it.
func unread(t testing.TB, m driver.Map, e driver.Entry) bool {
	t.Helper()
	_, err := m.Stat(t.Context(), e.Key)
	return e.Info.Size < 0 && ncerr.KindOf(err) == ncerr.ErrUnsupported
}

func wantContent(t testing.TB, m driver.Map, want map[string]string) {
	t.Helper()
	if got := content(t, m); !maps.Equal(got, want) {
		t.Errorf("content: want\n%.2000q\ngot\n%.2000q", want, got)
	}
}

func wantKind(t testing.TB, what string, err error, want ncerr.Kind) {
	t.Helper()
	if got := ncerr.KindOf(err); err == nil || got != want {
		t.Errorf("%s: want %v, got %v (%v)", what, want.Name(), got.Name(), err)
	}
}

// wantText is like wantKind, and also checks that the message contains the given words.
func wantText(t testing.TB, what string, err error, want ncerr.Kind, words ...string) {
	t.Helper()
	wantKind(t, what, err, want)
	for _, w := range words {
		if err != nil && !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not contain %q", what, err, w)
		}
	}
}

// wantOnlyZips checks that dir contains only files with the extension .zip.
func wantOnlyZips(t testing.TB, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if filepath.Ext(e.Name()) != ".zip" {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// entry is a member for stdZip.
type entry struct {
	name, content string
	deflate       bool
}

// stdZip creates an archive with the standard library, which writes data descriptors.
func stdZip(t testing.TB, comment string, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name}
		if e.deflate {
			h.Method = zip.Deflate
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.name, "/") {
			continue
		}
		if _, err := io.WriteString(f, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.SetComment(comment), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stdContent reads an archive file with the standard library.
func stdContent(t testing.TB, path string) map[string]string {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := map[string]string{}
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(rc)
		if err := errors.Join(err, rc.Close()); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		all[f.Name] = string(b)
	}
	return all
}

// writeTree writes files below dir.
func writeTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// readTree reads all files below dir.
func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tool runs a program in dir. It skips the test if the program is not installed.
func tool(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// corpus returns the path of a file of the corpora. It skips the test if the file is
// missing.
func corpus(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("NCZARR_CORPORA")
	if dir == "" {
		root, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		for !exists(filepath.Join(root, "go.mod")) {
			up := filepath.Dir(root)
			if up == root {
				t.Fatal("no go.mod above the test")
			}
			root = up
		}
		dir = filepath.Join(root, "..", "shared", "corpora")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if !exists(path) {
		t.Skipf("corpus file %s is missing", name)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func crcOf(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) }

func deflated(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 6)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(w, s)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
