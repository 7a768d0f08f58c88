package zip_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// FuzzDirectory opens arbitrary bytes as an archive. It checks that no input causes a
// panic or excessive memory use, that every failure has a suitable kind, that the
// standard library finds the same members in the archives that it accepts, and that
// rewriting preserves the content.
func FuzzDirectory(f *testing.F) {
	for _, seed := range [][]byte{
		nil, stdZip(f, ""), stdZip(f, "comment", entry{name: ".zgroup", content: "{}"}, entry{name: "v/0", content: strings.Repeat("x", 300), deflate: true}),
		stdZip(f, "", entry{name: "d/zarr.json", content: "{}"}, entry{name: "d/"}, entry{name: "d/c/0", content: "1"}, entry{name: "d/c/0", content: "2"}),
		stdZip(f, "", entry{name: "../x", content: "{}"}, entry{name: "caf\xe9"}, entry{name: "é"}, entry{name: "a\\b"}),
		append([]byte("junk"), stdZip(f, "", entry{name: "k", content: "v"})...),
		zip64Archive("k", "content"), append([]byte("junk"), zip64Archive("d/.zgroup", "content")...),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		path := saved(t, archive)
		spec := driver.OpenSpec{Path: path, Mode: driver.Update, Options: []byte(`{"prefix": "."}`)}
		m, err := zipdriver.New().Open(t.Context(), spec)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		defer func() { _ = m.Close(t.Context()) }() // the error of Flush is checked below
		sizes, readable := readAny(t, m, len(archive))
		compareStd(t, archive, sizes)
		put(t, m, "added by the test", "x")
		if err := m.Flush(t.Context()); err != nil {
			if ncerr.KindOf(err) != ncerr.ErrObjectExists {
				wantRefusal(t, err)
			}
			return
		}
		again, err := zipdriver.New().Open(t.Context(), spec)
		if err != nil {
			t.Fatalf("the rewritten archive cannot be opened: %v", err)
		}
		defer func() {
			if err := again.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		readable["added by the test"] = "x"
		for key, want := range readable {
			if got := get(t, again, key); got != want {
				t.Errorf("%q contains %.50q after rewriting, was %.50q", key, got, want)
			}
		}
		r, err := zip.OpenReader(path)
		if err != nil {
			t.Fatalf("the standard library refuses the rewritten archive: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// wantRefusal checks that err has one of the kinds for a faulty archive.
func wantRefusal(t *testing.T, err error) {
	t.Helper()
	switch ncerr.KindOf(err) {
	case ncerr.ErrCorrupt, ncerr.ErrUnsupported:
	default:
		t.Fatalf("unexpected kind %s of the error %v", ncerr.KindOf(err).Name(), err)
	}
}

// readAny lists and reads everything, and limits memory in proportion to the size of
// the archive. It returns all sizes and the readable content.
func readAny(t *testing.T, m driver.Map, archive int) (sizes map[string]int64, readable map[string]string) {
	t.Helper()
	sizes, readable = map[string]int64{}, map[string]string{}
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if !unread(t, m, e) {
			sizes[e.Key] = e.Info.Size
		}
		b, _, err := m.Get(t.Context(), e.Key, &driver.GetOptions{}, func(n int64) ([]byte, error) {
			if n > int64(archive)*1033 {
				t.Fatalf("%d bytes were requested for an archive of %d", n, archive)
			}
			return make([]byte, n), nil
		})
		if err != nil {
			wantRefusal(t, err)
			continue
		}
		readable[e.Key] = string(b)
	}
	return sizes, readable
}

// compareStd compares the keys and sizes with those that the standard library finds. It
// skips archives with a preamble, whose start the standard library determines
// differently.
func compareStd(t *testing.T, archive []byte, sizes map[string]int64) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) || !bytes.HasPrefix(archive, []byte("PK\x03\x04")) {
		return
	}
	want := map[string]int64{}
	for _, f := range r.File {
		if legalKey(f.Name) && f.Mode()&os.ModeSymlink == 0 {
			want[f.Name] = int64(f.UncompressedSize64)
		}
	}
	for key, n := range want {
		if got, ok := sizes[key]; !ok || got != n && got != -1 {
			t.Errorf("%q has %d bytes, the standard library reports %d", key, got, n)
		}
	}
	for key := range sizes {
		if _, ok := want[key]; !ok {
			t.Errorf("%q is unknown to the standard library", key)
		}
	}
}

// legalKey is an independent implementation of the rule for keys.
func legalKey(name string) bool {
	bad := func(r rune) bool { return r == '\\' || unicode.IsControl(r) }
	return utf8.ValidString(name) && !strings.ContainsFunc(name, bad) &&
		!slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." || s == ".." })
}
