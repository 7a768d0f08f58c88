package zip_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

var le = binary.LittleEndian

func TestReadForms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long content ", 5000)
	plain := stdZip(t, "", entry{name: ".zgroup", content: "{}"}, entry{name: "v/0.0", content: long, deflate: true},
		entry{name: "v/0.1", content: long}, entry{name: "v/"}, entry{name: "empty", deflate: true}, entry{name: "été/ü", content: "x"})
	want := map[string]string{".zgroup": "{}", "v/0.0": long, "v/0.1": long, "empty": "", "été/ü": "x"}
	commented := stdZip(t, strings.Repeat("a comment PK\x05\x06 ", 4000), entry{name: "k", content: "v"})
	for name, tc := range map[string]struct {
		archive []byte
		want    map[string]string
	}{
		"plain":          {plain, want},
		"prepended":      {append([]byte("#!/bin/sh\nexit 0\n"), plain...), want},
		"comment":        {commented[:len(commented):len(commented)], map[string]string{"k": "v"}},
		"duplicates":     {stdZip(t, "", entry{name: "a", content: "old"}, entry{name: "b", content: "b"}, entry{name: "a", content: "new"}), map[string]string{"a": "new", "b": "b"}},
		"empty":          {stdZip(t, ""), map[string]string{}},
		"object+prefix":  {stdZip(t, "", entry{name: "a", content: "1"}, entry{name: "a/b", content: "2"}), map[string]string{"a": "1", "a/b": "2"}},
		"zip64 sizes":    {zip64Archive("k", "content"), map[string]string{"k": "content"}},
		"zip64 prefixed": {append([]byte("junk"), zip64Archive("k", "content")...), map[string]string{"k": "content"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "comment" {
				// Readers use the last signature, which is in the comment of this
				// archive.
				_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: saved(t, tc.archive)})
				wantKind(t, "open", err, ncerr.ErrCorrupt)
				return
			}
			wantContent(t, openZip(t, saved(t, tc.archive), driver.Read, ""), tc.want)
		})
	}
}

func TestCommentIsKept(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a comment ", 6000)
	path := saved(t, stdZip(t, text, entry{name: "k", content: "v"}))
	m := openZip(t, path, driver.Update, "")
	put(t, m, "l", "w")
	flush(t, m)
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Comment != text {
		t.Errorf("the comment became %.60q", r.Comment)
	}
}

// zip64Archive returns an archive of one member with all possible fields in zip64 form.
func zip64Archive(name, content string) []byte {
	var b []byte
	u16 := func(v ...uint16) {
		for _, x := range v {
			b = le.AppendUint16(b, x)
		}
	}
	u32 := func(v ...uint32) {
		for _, x := range v {
			b = le.AppendUint32(b, x)
		}
	}
	u64 := func(v ...uint64) {
		for _, x := range v {
			b = le.AppendUint64(b, x)
		}
	}
	n, crc := uint64(len(content)), crcOf(content)
	u32(0x04034b50)
	u16(45, 0, 0, 0, 33)
	u32(crc, math.MaxUint32, math.MaxUint32)
	u16(uint16(len(name)), 20)
	b = append(b, name...)
	u16(1, 16)
	u64(n, n)
	b = append(b, content...)
	dir := len(b)
	u32(0x02014b50)
	u16(45, 45, 0, 0, 0, 33)
	u32(crc, math.MaxUint32, math.MaxUint32)
	u16(uint16(len(name)), 28, 0, 0, 0)
	u32(0, math.MaxUint32)
	b = append(b, name...)
	u16(1, 24)
	u64(n, n, 0)
	end := len(b)
	u32(0x06064b50)
	u64(44)
	u16(45, 45)
	u32(0, 0)
	u64(1, 1, uint64(end-dir), uint64(dir))
	u32(0x07064b50, 0)
	u64(uint64(end))
	u32(1, 0x06054b50)
	u16(0, 0, math.MaxUint16, math.MaxUint16)
	u32(math.MaxUint32, math.MaxUint32)
	u16(0)
	return b
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	names := func(list ...string) (e []entry) {
		for _, n := range list {
			e = append(e, entry{name: n, content: n})
		}
		return e
	}
	for name, tc := range map[string]struct {
		entries []entry
		options string
		prefix  string
		keys    []string
	}{
		"none":              {names(".zgroup", "v/.zarray", "v/0"), "", "", []string{".zgroup", "v/.zarray", "v/0"}},
		"parent":            {names("d/", "d/.zgroup", "d/v/.zarray"), "", "d/", []string{".zgroup", "v/.zarray"}},
		"v3":                {names("d/zarr.json", "d/v/zarr.json"), "", "d/", []string{"v/zarr.json", "zarr.json"}},
		"old NCZarr":        {names("d/.nczarr", "d/v/.zarray"), "", "d/", []string{".nczarr", "v/.zarray"}},
		"document at top":   {names("d/.zgroup", ".zgroup"), "", "", []string{".zgroup", "d/.zgroup"}},
		"two directories":   {names("d/.zgroup", "e/.zgroup"), "", "", []string{"d/.zgroup", "e/.zgroup"}},
		"document too deep": {names("d/v/.zarray", "d/v/0"), "", "", []string{"d/v/.zarray", "d/v/0"}},
		"same start":        {names("d/.zgroup", "dd/.zgroup"), "", "", []string{"d/.zgroup", "dd/.zgroup"}},
		"unsafe names too":  {names("../x", "d/.zgroup", "/y"), "", "d/", []string{".zgroup"}},
		"forced":            {names("d/.zgroup", "e/.zgroup", "e/v"), `{"prefix": "e"}`, "e/", []string{".zgroup", "v"}},
		"forced deep":       {names("d/e/.zgroup"), `{"prefix": "d/e"}`, "d/e/", []string{".zgroup"}},
		"forced none":       {names("d/.zgroup"), `{"prefix": "."}`, "", []string{"d/.zgroup"}},
		"auto":              {names("d/.zgroup"), `{"prefix": "auto"}`, "d/", []string{".zgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := saved(t, stdZip(t, "", tc.entries...))
			m := openZip(t, path, driver.Update, tc.options)
			if m.Prefix() != tc.prefix || !slices.Equal(sortedKeys(content(t, m)), tc.keys) {
				t.Errorf("unexpected prefix %q or keys %q", m.Prefix(), sortedKeys(content(t, m)))
			}
			put(t, m, "new/key", "x")
			flush(t, m)
			if got := stdContent(t, path)[tc.prefix+"new/key"]; got != "x" {
				t.Errorf("after an update %q contains %q", tc.prefix+"new/key", got)
			}
			again := openZip(t, path, driver.Read, tc.options)
			if again.Prefix() != tc.prefix || get(t, again, "new/key") != "x" {
				t.Errorf("after an update the prefix is %q", again.Prefix())
			}
		})
	}
}

// TestPrefixIsUnambiguous checks that a written archive has the same keys when it is
// opened again, whatever prefix its names suggest.
func TestPrefixIsUnambiguous(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", `{"prefix": "auto"}`, `{"prefix": "a"}`} {
		for _, want := range []map[string]string{
			{"a/.zgroup": "1", "a/0": "2"}, {"x/0": "1"}, {}, {".zgroup": "{}"}, {"a/a/.zgroup": "1"},
		} {
			path := filepath.Join(t.TempDir(), "data.set.zip")
			m := openZip(t, path, driver.Create, options)
			for k, v := range want {
				put(t, m, k, v)
			}
			flush(t, m)
			again := openZip(t, path, driver.Update, "")
			wantContent(t, again, want)
			if len(want) == 0 {
				continue
			}
			put(t, again, ".zgroup", "")
			flush(t, again)
			if openZip(t, path, driver.Read, "").Prefix() != m.Prefix() {
				t.Errorf("options %s, content %v: the prefix changed", options, want)
			}
		}
	}
}

// TestWithoutDocuments checks an opener without a list of documents: it detects no
// prefix, sorts members by name only, and writes archives that have the same keys for
// other openers.
func TestWithoutDocuments(t *testing.T) {
	t.Parallel()
	want := map[string]string{"d/.zgroup": "{}", "d/+": "before the documents", "d/v/.zarray": "{}"}
	var entries []entry
	for _, name := range sortedKeys(want) {
		entries = append(entries, entry{name: name, content: want[name]})
	}
	openWithoutDocs := func(path string, mode driver.Mode, options string) driver.Map {
		m, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode, Options: []byte(options)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close(context.WithoutCancel(t.Context())) })
		return m
	}
	path := saved(t, stdZip(t, "", entries...))
	m := openWithoutDocs(path, driver.Update, "")
	wantContent(t, m, want)
	put(t, m, "d/!", "")
	want["d/!"] = ""
	flush(t, m)
	wantContent(t, openZip(t, path, driver.Read, ""), want)
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !slices.IsSortedFunc(r.File, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("want members in the order of their names, got %v", r.File)
	}
	for _, options := range []string{"", `{"prefix": "d"}`} {
		for _, key := range []string{"v/0", ".zgroup", "d/.zgroup"} {
			path := filepath.Join(t.TempDir(), "new.zip")
			m := openWithoutDocs(path, driver.Create, options)
			put(t, m, key, "x")
			flush(t, m)
			for _, again := range []driver.Map{openWithoutDocs(path, driver.Read, ""), openZip(t, path, driver.Read, "")} {
				wantContent(t, again, map[string]string{key: "x"})
			}
		}
	}
}

func TestUnsafeNames(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"/etc/x": "absolute", "../x": "..", "a/../x": "..", "a/..": "..", "./x": "..", "a/./x": "..", "a//x": "empty segment",
		"a\\x": "backslash", "a\x00b": "control", "a\nb": "control", "a\x7fb": "control", "a\u0085b": "control",
		"caf\xe9": "UTF-8", "long enough for words\\": "backslash", "long enough for \x01 words": "control", "..": "..", ".": "..",
	}
	entries := []entry{{name: "good/..x/...", content: "1"}, {name: "good/long enough for words ~", content: "2"}}
	for _, name := range sortedKeys(bad) {
		entries = append(entries, entry{name: name, content: "bad"})
	}
	path := saved(t, stdZip(t, "", entries...))
	m := openZip(t, path, driver.Update, "")
	want := map[string]string{"good/..x/...": "1", "good/long enough for words ~": "2"}
	wantContent(t, m, want)
	check := func(m *zipdriver.Map) {
		t.Helper()
		skipped := m.Skipped()
		if len(skipped) != len(bad) {
			t.Errorf("want %d reported members, got %d", len(bad), len(skipped))
		}
		for _, s := range skipped {
			if word := bad[s.Name]; word == "" || !strings.Contains(s.Reason, word) {
				t.Errorf("%q is reported as %q", s.Name, s.Reason)
			}
			if _, err := m.Stat(t.Context(), s.Name); ncerr.KindOf(err) != ncerr.ErrNotFound {
				t.Errorf("stat %q: want ErrNotFound, got %v", s.Name, err)
			}
		}
	}
	check(m)
	put(t, m, "more", "3")
	want["more"] = "3"
	flush(t, m)
	wantContent(t, m, want)
	check(openZip(t, path, driver.Read, ""))
	_, err := m.Put(t.Context(), `back\slash`, driver.Bytes("x"), &driver.PutOptions{})
	wantKind(t, "put with a backslash", err, ncerr.ErrBadName)
}

func TestSymbolicLinkIsSkipped(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if _, err := w.Create("object"); err != nil {
		t.Fatal(err)
	}
	h := &zip.FileHeader{Name: "link"}
	h.SetMode(os.ModeSymlink | 0o777)
	f, err := w.CreateHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte("/etc/passwd"))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	m := openZip(t, saved(t, b.Bytes()), driver.Read, "")
	wantContent(t, m, map[string]string{"object": ""})
	if s := m.Skipped(); len(s) != 1 || s[0].Reason != "symbolic link" {
		t.Errorf("want one skipped symbolic link, got %v", s)
	}
	_, err = m.Stat(t.Context(), "link")
	wantText(t, "stat of the link", err, ncerr.ErrUnsupported, "link", "symbolic link")
}

// TestInvalidNamesAreOmitted checks that names that cannot suggest a key, because they
// are empty or too long, are omitted from a listing, which continues after them.
func TestInvalidNamesAreOmitted(t *testing.T) {
	t.Parallel()
	for _, h := range []*zip.FileHeader{{Name: "", ExternalAttrs: 0o120777 << 16, CreatorVersion: 3 << 8}, {Name: strings.Repeat("\x01", 40_000)}} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		_, err := w.Create("object")
		if err == nil {
			_, err = w.CreateHeader(h)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		m := zmap.New(openZip(t, saved(t, b.Bytes()), driver.Read, ""), nil)
		names, err := m.Search(t.Context(), "")
		if err != nil || !slices.Equal(names, []string{"object"}) {
			t.Errorf("list with the name %.10q: want only \"object\", got %q, %v", h.Name, names, err)
		}
	}
}

// TestUnreadableMemberIsNotMissing checks that a key suggested by the name of an
// unreadable member is not reported as missing, because a missing chunk reads as the
// fill value. The key is listed, so that readers find the array.
func TestUnreadableMemberIsNotMissing(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"/v/0": "v/0", "./v/0": "v/0", "v//0": "v/0", `v\0`: "v/0", `.\v/./0`: "v/0", "../v/0": "", "v/../0": "", `v\0\`: "", "v/0/": "",
		"v/\x010": "v/\ufffd0", "caf\xe9/0": "caf\ufffd/0", "/v/\x01": "v/\ufffd",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive := stdZip(t, "", entry{name: ".zgroup", content: "{}"}, entry{name: name, content: "x"})
			for _, mode := range []driver.Mode{driver.Read, driver.Update} {
				m := openZip(t, saved(t, archive), mode, "")
				asked := cmp.Or(key, "v/0")
				_, err := m.Stat(t.Context(), asked)
				_, _, errGet := m.Get(t.Context(), asked, &driver.GetOptions{}, driver.Heap)
				var listed []string
				for e := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
					listed = append(listed, e.Key)
				}
				if want := slices.Compact([]string{".zgroup", cmp.Or(key, ".zgroup")}); !slices.Equal(listed, want) {
					t.Errorf("listing: want %q, got %q", want, listed)
				}
				if key == "" {
					wantKind(t, "stat", err, ncerr.ErrNotFound)
					wantKind(t, "get", errGet, ncerr.ErrNotFound)
					continue
				}
				wantText(t, "stat", err, ncerr.ErrUnsupported, key, strconv.Quote(name))
				wantText(t, "get", errGet, ncerr.ErrUnsupported, key, strconv.Quote(name))
				_, err = m.Stat(t.Context(), "v/1")
				wantKind(t, "stat of another key", err, ncerr.ErrNotFound)
				if mode == driver.Update {
					put(t, m, asked, "new")
					wantContent(t, m, map[string]string{".zgroup": "{}", asked: "new"})
					flush(t, m)
					wantContent(t, m, map[string]string{".zgroup": "{}", asked: "new"})
				}
			}
		})
	}
}

// TestNoReadableMember checks that an archive without a readable member is not opened as
// an empty store.
func TestNoReadableMember(t *testing.T) {
	t.Parallel()
	path := saved(t, stdZip(t, "", entry{name: `t\.zgroup`, content: "{}"}, entry{name: `t\v\0`, content: "x"}))
	_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: driver.Read})
	wantText(t, "open", err, ncerr.ErrNotZarr, `"t\\.zgroup"`, "backslash")
	wantContent(t, openZip(t, path, driver.Update, ""), map[string]string{})
}

func TestNotAnArchive(t *testing.T) {
	t.Parallel()
	good := stdZip(t, "", entry{name: "a", content: strings.Repeat("x", 1000)}, entry{name: "b", content: "y"})
	for name, archive := range map[string][]byte{
		"empty": nil, "short": []byte("PK"), "text": bytes.Repeat([]byte("no archive "), 100),
		"HDF5": append([]byte("\x89HDF\r\n\x1a\n"), make([]byte, 4096)...), "truncated by one": good[:len(good)-1],
		"half": good[:len(good)/2], "head cut off": good[500:],
		"directory outside": patched(good, len(good)-6, 0xff, 0xff, 0xff, 0x7f),
		"huge directory":    patched(good, len(good)-10, 0xff, 0xff, 0xff, 0x7f),
		"too many members":  patched(good, len(good)-12, 0xff, 0x7f),
		"one too many":      patched(good, len(good)-12, 3, 0),
		"broken record":     patched(good, bytes.Index(good, []byte("PK\x01\x02")), 'X'),
		"record cut off":    patched(good, bytes.LastIndex(good, []byte("PK\x01\x02"))+28, 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := saved(t, archive)
			for _, mode := range []driver.Mode{driver.Read, driver.Update} {
				_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode})
				wantText(t, "open", err, ncerr.ErrCorrupt, "not a zip archive: ", path)
			}
			wantOnlyZips(t, filepath.Dir(path))
		})
	}
	_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: t.TempDir()})
	wantText(t, "open a directory", err, ncerr.ErrCorrupt, "not a zip archive: ", "directory")
	_, err = zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: t.TempDir(), Mode: driver.CreateExclusive})
	wantKind(t, "create in place of a directory", err, ncerr.ErrExists)
	_, err = zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "absent.zip")})
	wantText(t, "open a missing archive", err, ncerr.ErrNoDataset, "absent.zip")
	_, err = zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "no", "x.zip"), Mode: driver.Create})
	wantText(t, "create without directory", err, ncerr.ErrIO, "no such file or directory")
	split := patched(good, len(good)-18, 1, 0, 1, 0)
	_, err = zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: saved(t, split)})
	wantKind(t, "open one of several parts", err, ncerr.ErrUnsupported)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		`{"deflate": 10}`, `{"deflate": -1}`, `{"deflate": "6"}`, `{"durability": "maybe"}`, `{"prefix": "../x"}`, `{"prefix": "/x"}`,
		`{"prefix": "x/"}`, `{"spill": -1}`, `{"spill": "many"}`, `{"spill": "9999999TiB"}`, `{"spil": 1}`, `{`, `[]`,
	} {
		_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "x.zip"), Mode: driver.Create, Options: []byte(options)})
		wantKind(t, options, err, ncerr.ErrInvalid)
	}
}

// patched returns a copy of b with other bytes at off.
func patched(b []byte, off int, with ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[off:], with)
	return b
}

// TestNoRangesOfDeflated checks that Info.NoRanges is set for a deflated member, which
// must be decoded completely for each range, and not for a stored member.
func TestNoRangesOfDeflated(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("zarr", 3000)
	m := openZip(t, saved(t, stdZip(t, "", entry{name: "stored", content: text}, entry{name: "soft", content: text, deflate: true})), driver.Read, "")
	for key, want := range map[string]bool{"stored": false, "soft": true} {
		stat, err := m.Stat(t.Context(), key)
		if err != nil || stat.NoRanges != want {
			t.Errorf("stat %s: got %+v, %v", key, stat, err)
		}
		_, got, err := m.Get(t.Context(), key, &driver.GetOptions{Range: &driver.Range{Offset: 8, Length: 4}}, driver.Heap)
		if err != nil || got.NoRanges != want {
			t.Errorf("get %s: got %+v, %v", key, got, err)
		}
	}
}

// damage returns an archive with two stored members, "a" and "b", and one deflated
// member, "z", after change has modified its bytes.
func damage(t *testing.T, change func(b []byte, central func(name string) []byte, local func(name string) []byte)) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	text := strings.Repeat("zarr", 3000)
	for _, name := range []string{"a", "b", "z"} {
		h := &zip.FileHeader{Name: name, CRC32: crcOf(text), UncompressedSize64: uint64(len(text)), CompressedSize64: uint64(len(text))}
		raw := []byte(text)
		if name == "z" {
			h.Method = zip.Deflate
			raw = deflated(t, text)
			h.CompressedSize64 = uint64(len(raw))
		}
		f, err := w.CreateRaw(h)
		if err == nil {
			_, err = f.Write(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := buf.Bytes()
	find := func(sig string, head int) func(string) []byte {
		return func(name string) []byte {
			for i := 0; ; {
				n := bytes.Index(b[i:], []byte(sig))
				if n < 0 {
					t.Fatalf("no record of %q", name)
				}
				if i += n; string(b[i+head:i+head+len(name)]) == name {
					return b[i:]
				}
				i++
			}
		}
	}
	change(b, find("PK\x01\x02", 46), find("PK\x03\x04", 30))
	return b
}

func TestDamagedMembers(t *testing.T) {
	t.Parallel()
	type patch = func(b []byte, central, local func(string) []byte)
	for name, tc := range map[string]struct {
		key   string
		kind  ncerr.Kind
		words []string
		patch patch
	}{
		"method":           {"b", ncerr.ErrUnsupported, []string{"method 93", `"b"`}, func(_ []byte, c, l func(string) []byte) { c("b")[10], l("b")[8] = 93, 93 }},
		"encrypted":        {"b", ncerr.ErrUnsupported, []string{"encrypted"}, func(_ []byte, c, l func(string) []byte) { c("b")[8] |= 1; l("b")[6] |= 1 }},
		"checksum":         {"b", ncerr.ErrCorrupt, []string{"checksum"}, func(_ []byte, _, l func(string) []byte) { l("b")[100] ^= 1 }},
		"deflate checksum": {"z", ncerr.ErrCorrupt, []string{"checksum"}, func(_ []byte, c, _ func(string) []byte) { c("z")[16] ^= 1 }},
		"broken deflate":   {"z", ncerr.ErrCorrupt, nil, func(_ []byte, _, l func(string) []byte) { copy(l("z")[33:], "\xff\xff\xff\xff\xff") }},
		"deflate cut":      {"z", ncerr.ErrCorrupt, nil, func(_ []byte, c, _ func(string) []byte) { c("z")[20] -= 4 }},
		"too long":         {"z", ncerr.ErrCorrupt, []string{"longer than"}, func(_ []byte, c, _ func(string) []byte) { c("z")[24]-- }},
		"too short":        {"z", ncerr.ErrCorrupt, []string{"is truncated"}, func(_ []byte, c, _ func(string) []byte) { c("z")[24]++ }},
		"bomb":             {"z", ncerr.ErrCorrupt, []string{"do not fit"}, func(_ []byte, c, _ func(string) []byte) { le.PutUint32(c("z")[24:], 2_000_000_000) }},
		"stored sizes":     {"b", ncerr.ErrCorrupt, nil, func(_ []byte, c, _ func(string) []byte) { c("b")[24]++ }},
		"out of file":      {"b", ncerr.ErrCorrupt, []string{"does not fit"}, func(_ []byte, c, _ func(string) []byte) { le.PutUint32(c("b")[42:], 1<<30) }},
		"huge": {"b", ncerr.ErrCorrupt, []string{"does not fit"}, func(_ []byte, c, _ func(string) []byte) {
			le.PutUint32(c("b")[20:], 1<<31)
			le.PutUint32(c("b")[24:], 1<<31)
		}},
		"zip64 missing":  {"b", ncerr.ErrCorrupt, []string{"invalid size or offset"}, func(_ []byte, c, _ func(string) []byte) { le.PutUint32(c("b")[20:], math.MaxUint32) }},
		"same place":     {"b", ncerr.ErrCorrupt, []string{"overlaps"}, func(_ []byte, c, _ func(string) []byte) { le.PutUint32(c("b")[42:], 0) }},
		"overlap":        {"b", ncerr.ErrCorrupt, []string{"overlaps"}, func(_ []byte, c, _ func(string) []byte) { c("b")[20]++; c("b")[24]++ }},
		"local name":     {"b", ncerr.ErrCorrupt, []string{"another name"}, func(_ []byte, _, l func(string) []byte) { l("b")[30] = 'x' }},
		"local length":   {"b", ncerr.ErrCorrupt, []string{"another name"}, func(_ []byte, _, l func(string) []byte) { l("b")[26] = 2 }},
		"local extra":    {"b", ncerr.ErrCorrupt, []string{"overlaps"}, func(_ []byte, _, l func(string) []byte) { l("b")[28] = 200 }},
		"local missing":  {"b", ncerr.ErrCorrupt, []string{"no member"}, func(_ []byte, _, l func(string) []byte) { l("b")[0] = 'X' }},
		"local method":   {"b", ncerr.ErrCorrupt, []string{"differs"}, func(_ []byte, _, l func(string) []byte) { l("b")[8] = 8 }},
		"local, deflate": {"z", ncerr.ErrCorrupt, []string{"differs"}, func(_ []byte, _, l func(string) []byte) { l("z")[8] = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := saved(t, damage(t, tc.patch))
			m := openZip(t, path, driver.Update, "")
			calls := 0
			_, _, err := m.Get(t.Context(), tc.key, &driver.GetOptions{}, func(n int64) ([]byte, error) {
				calls++
				if n > 1<<20 {
					t.Errorf("%d bytes of memory were requested", n)
				}
				return make([]byte, min(n, 1<<20)), nil
			})
			wantText(t, "get", err, tc.kind, tc.words...)
			if name != "same place" {
				get(t, m, "a")
			}
			before, _ := os.ReadFile(path)
			put(t, m, tc.key, "mended")
			if name == "same place" {
				remove(t, m, "a")
			}
			flush(t, m)
			if bytes.Equal(before, fileContent(t, path)) || get(t, m, tc.key) != "mended" {
				t.Error("the damaged member could not be replaced")
			}
		})
	}
}

func fileContent(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDamageIsNotCopied checks that an archive with a member that cannot be copied is
// not rewritten and stays unchanged.
func TestDamageIsNotCopied(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]func(b []byte, central, local func(string) []byte){
		"misplaced": func(_ []byte, c, _ func(string) []byte) { le.PutUint32(c("b")[42:], 1<<30) },
		"encrypted": func(_ []byte, c, l func(string) []byte) { c("b")[8] |= 1; l("b")[6] |= 1 },
		"renamed":   func(_ []byte, _, l func(string) []byte) { l("b")[30] = 'x' },
	} {
		path := saved(t, damage(t, patch))
		before := fileContent(t, path)
		m := openZip(t, path, driver.Update, "")
		put(t, m, "new", "x")
		if err := m.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("%s: flush: want an error about \"b\", got %v", name, err)
		}
		if !bytes.Equal(before, fileContent(t, path)) {
			t.Errorf("%s: the archive was changed", name)
		}
		wantOnlyZips(t, filepath.Dir(path))
		remove(t, m, "b")
		flush(t, m)
		if got := sortedKeys(content(t, m)); !slices.Equal(got, []string{"a", "new", "z"}) {
			t.Errorf("%s: after deleting the member: want a, new and z, got %q", name, got)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 20000 {
		text += fmt.Sprintf("%05d,", i)
	}
	m := openZip(t, saved(t, stdZip(t, "", entry{name: "s", content: text}, entry{name: "d", content: text, deflate: true})), driver.Read, "")
	for _, key := range []string{"s", "d"} {
		for _, p := range [][2]int64{{0, 1}, {5, 70000}, {119999, 1}, {119000, -1}, {120000, -1}, {120000, 0}, {-7, -1}, {-1 << 40, -1}, {0, -1}} {
			r := driver.Range{Offset: p[0], Length: p[1]}
			off, n, err := r.Resolve(int64(len(text)))
			if err != nil {
				t.Fatal(err)
			}
			got, info, err := m.Get(t.Context(), key, &driver.GetOptions{Range: &r}, driver.Heap)
			if err != nil || string(got) != text[off:off+n] || info.Size != int64(len(text)) {
				t.Errorf("%s %v: %d bytes, %+v, %v", key, r, len(got), info, err)
			}
		}
		_, _, err := m.Get(t.Context(), key, &driver.GetOptions{Range: &driver.Range{Offset: 119999, Length: 2}}, driver.Heap)
		wantKind(t, key, err, ncerr.ErrRange)
		_, _, err = m.Get(t.Context(), key, &driver.GetOptions{Limit: 1000}, func(int64) ([]byte, error) {
			t.Error("memory beyond the limit was requested")
			return nil, errors.New("no")
		})
		wantKind(t, key, err, ncerr.ErrLimit)
	}
}

// TestPartialReadReturnsBytes checks that Get returns the bytes read so far with an
// error after alloc.
func TestPartialReadReturnsBytes(t *testing.T) {
	t.Parallel()
	m := openZip(t, saved(t, damage(t, func(_ []byte, c, _ func(string) []byte) { c("z")[16] ^= 1 })), driver.Read, "")
	got, _, err := m.Get(t.Context(), "z", &driver.GetOptions{}, driver.Heap)
	if wantKind(t, "get", err, ncerr.ErrCorrupt); len(got) != 12000 {
		t.Errorf("want 12000 bytes, got %d", len(got))
	}
	got, _, err = m.Get(t.Context(), "z", &driver.GetOptions{Range: &driver.Range{Offset: 1, Length: 2}}, driver.Heap)
	if wantKind(t, "get of a range", err, ncerr.ErrCorrupt); string(got) != "ar" {
		t.Errorf("want \"ar\", got %q", got)
	}
}

func TestConcurrentReads(t *testing.T) {
	t.Parallel()
	var entries []entry
	for i := range 50 {
		entries = append(entries, entry{name: fmt.Sprint("v/", i), content: strings.Repeat(fmt.Sprint(i, " "), 1000+i), deflate: i%2 == 0})
	}
	m := openZip(t, saved(t, stdZip(t, "", entries...)), driver.Read, "")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range entries {
				e := entries[(i*7+g)%len(entries)]
				b, _, err := m.Get(t.Context(), e.name, &driver.GetOptions{}, driver.Heap)
				if err != nil || string(b) != e.content {
					t.Errorf("%s: %d bytes, %v", e.name, len(b), err)
				}
			}
		})
	}
	wg.Wait()
}
