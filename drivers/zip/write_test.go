package zip_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
	"pgregory.net/rapid"
)

// TestEqualContentGivesEqualBytes checks that the archive does not depend on the order
// of writes, on where values were stored, or on the number of flushes.
func TestEqualContentGivesEqualBytes(t *testing.T) {
	t.Parallel()
	keys := []string{".zgroup", "g/.zattrs", "g-x/.zarray", "g/v/.zarray", "g/v/0.0", "!a/.zgroup", "g/v/0.1", "été", "g/a/0", ".zattrs", "g/zarr.json"}
	var first []byte
	for i, options := range []string{"", `{"spill": 0}`, `{"spill": "20B"}`} {
		path := filepath.Join(t.TempDir(), "x.zip")
		m := openZip(t, path, driver.Create, options)
		put(t, m, "gone", "x")
		for j := range keys {
			k := keys[(j*(i*2+1)+i)%len(keys)]
			put(t, m, k, "old")
			if j == 5 {
				flush(t, m)
			}
			put(t, m, k, "content of "+k)
		}
		remove(t, m, "gone")
		flush(t, m)
		if first == nil {
			first = fileContent(t, path)
		} else if !bytes.Equal(first, fileContent(t, path)) {
			t.Errorf("options %s produce different bytes", options)
		}
		wantOnlyZips(t, filepath.Dir(path))
	}
	r, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.File {
		got = append(got, f.Name)
		if f.Method != zip.Store || f.NonUTF8 || f.Modified.Year() != 1980 || f.Mode().Perm() != 0o644 {
			t.Errorf("%s: want a stored member of 1980 with mode 0644, got method %d, modified %v, mode %v", f.Name, f.Method, f.Modified, f.Mode())
		}
	}
	want := []string{".zattrs", ".zgroup", "!a/.zgroup", "g/.zattrs", "g/zarr.json", "g/v/.zarray", "g-x/.zarray", "été", "g/a/0", "g/v/0.0", "g/v/0.1"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("order of the members: want\n%q\ngot\n%q", want, got)
	}
}

func TestDeflate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zip")
	noise := make([]byte, 300000)
	x := uint64(1)
	for i := range noise {
		x = x*6364136223846793005 + 1442695040888963407
		noise[i] = byte(x >> 56)
	}
	want := map[string]string{"soft": strings.Repeat("soft ", 100000), "noise": string(noise), "empty": "", "one": "1", "z": strings.Repeat("z", 70000)}
	m := openZip(t, path, driver.Create, `{"deflate": 6, "spill": "64KiB"}`)
	for k, v := range want {
		put(t, m, k, v)
	}
	flush(t, m)
	wantContent(t, m, want)
	if got := stdContent(t, path); !maps.Equal(got, want) {
		t.Error("the standard library reads different content")
	}
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, f := range r.File {
		if soft := f.Name == "soft" || f.Name == "z"; soft != (f.Method == zip.Deflate) || f.CompressedSize64 > f.UncompressedSize64 {
			t.Errorf("%s: unexpected method %d for %d compressed of %d bytes", f.Name, f.Method, f.CompressedSize64, f.UncompressedSize64)
		}
	}
}

// TestUnchangedMembersAreCopied checks that a rewrite keeps the method, date, comment
// and compressed bytes of unchanged members, and the bytes before the archive.
func TestUnchangedMembersAreCopied(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	stub := "#!/bin/sh\necho extracts itself\n"
	b.WriteString(stub)
	w := zip.NewWriter(&b)
	w.SetOffset(int64(len(stub)))
	day := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "kept", Method: zip.Deflate, Modified: day, Comment: "a note"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Repeat([]byte("kept "), 1000))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	path := saved(t, b.Bytes())
	m := openZip(t, path, driver.Update, "")
	put(t, m, "new", "x")
	flush(t, m)
	if !strings.HasPrefix(string(fileContent(t, path)), stub) {
		t.Error("the bytes before the archive are missing")
	}
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	old := r.File[0]
	if old.Name != "kept" || old.Method != zip.Deflate || old.Comment != "a note" || old.Modified.Format(time.DateTime) != "2020-02-03 04:05:06" {
		t.Errorf("the old member became %+v", old.FileHeader)
	}
	if got := stdContent(t, path)["kept"]; got != strings.Repeat("kept ", 1000) {
		t.Errorf("the old member contains %.20q", got)
	}
}

func TestFlushWithoutChanges(t *testing.T) {
	t.Parallel()
	path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}, entry{name: "a", content: "2"}))
	before, _ := os.Stat(path)
	m := openZip(t, path, driver.Update, "")
	put(t, m, "new", "x")
	remove(t, m, "new")
	remove(t, m, "absent")
	flush(t, m)
	after, _ := os.Stat(path)
	if !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Error("a flush without changes wrote the archive")
	}
	fresh := filepath.Join(t.TempDir(), "fresh.zip")
	m = openZip(t, fresh, driver.Create, "")
	if exists(fresh) {
		t.Error("the archive exists before the flush")
	}
	flush(t, m)
	wantContent(t, openZip(t, fresh, driver.Read, ""), map[string]string{})
}

func TestCloseWithoutFlush(t *testing.T) {
	t.Parallel()
	path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}))
	before := fileContent(t, path)
	for _, mode := range []driver.Mode{driver.Update, driver.Create} {
		m, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode, Options: []byte(`{"spill": 0}`)})
		if err != nil {
			t.Fatal(err)
		}
		put(t, m, "b", "2")
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, fileContent(t, path)) {
			t.Errorf("mode %d changed the archive", mode)
		}
		wantOnlyZips(t, filepath.Dir(path))
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	one := stdZip(t, "", entry{name: "a", content: "1"})
	for name, tc := range map[string]struct {
		mode   driver.Mode
		start  bool
		meddle func(path string) error
	}{
		"replaced":         {driver.Update, true, func(p string) error { return errors.Join(os.WriteFile(p+"2.zip", one, 0o644), os.Rename(p+"2.zip", p)) }},
		"touched":          {driver.Update, true, func(p string) error { return os.Chtimes(p, time.Time{}, time.Now().Add(time.Hour)) }},
		"appended":         {driver.Update, true, func(p string) error { return os.WriteFile(p, append(one, one...), 0o644) }},
		"removed":          {driver.Update, true, os.Remove},
		"made":             {driver.Create, false, func(p string) error { return os.WriteFile(p, one, 0o644) }},
		"made exclusively": {driver.CreateExclusive, false, func(p string) error { return os.WriteFile(p, one, 0o644) }},
		"replaced, create": {driver.Create, true, func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, append(one, 0), 0o644)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.zip")
			if tc.start {
				if err := os.WriteFile(path, one, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			m := openZip(t, path, tc.mode, "")
			put(t, m, "b", "mine")
			if err := tc.meddle(path); err != nil {
				t.Fatal(err)
			}
			theirs, _ := os.ReadFile(path)
			for range 2 {
				wantText(t, "flush", m.Flush(t.Context()), ncerr.ErrConflict, "another process")
			}
			if now, _ := os.ReadFile(path); !bytes.Equal(now, theirs) {
				t.Error("the other writer's archive was overwritten")
			}
			if get(t, m, "b") != "mine" {
				t.Error("the pending change is lost")
			}
			wantOnlyZips(t, filepath.Dir(path))
		})
	}
}

func TestPermissionsAndLinks(t *testing.T) {
	t.Parallel()
	path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}))
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.zip")
	if err := os.Symlink(path, link); err != nil {
		t.Skip("no symbolic links here")
	}
	m := openZip(t, link, driver.Update, "")
	put(t, m, "b", "2")
	flush(t, m)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the archive has the mode %v, %v", info.Mode(), err)
	}
	wantContent(t, openZip(t, path, driver.Read, ""), map[string]string{"a": "1", "b": "2"})
}

func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write everywhere")
	}
	path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}))
	if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o755) })
	_, err := zipdriver.New().Open(t.Context(), driver.OpenSpec{Path: path, Mode: driver.Update})
	wantKind(t, "open for update", err, ncerr.ErrPermission)
	wantContent(t, openZip(t, path, driver.Read, ""), map[string]string{"a": "1"})
}

func TestRemoveKeepsForeignFiles(t *testing.T) {
	t.Parallel()
	for text, gone := range map[string]bool{
		"": true, "PK\x03\x04 truncated": true, string(stdZip(t, "")): true, "junk" + string(stdZip(t, "", entry{name: "a"})): true,
		"CDF\x01 precious": false, "x": false,
	} {
		path := saved(t, []byte(text))
		err := zipdriver.New().Remove(t.Context(), driver.OpenSpec{Path: path})
		if gone != (err == nil) || gone == exists(path) {
			t.Errorf("remove %.10q: %v", text, err)
		}
		if !gone {
			wantKind(t, "remove", err, ncerr.ErrCorrupt)
		}
	}
}

func TestCanceledFlush(t *testing.T) {
	t.Parallel()
	path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}))
	m := openZip(t, path, driver.Update, "")
	put(t, m, "b", strings.Repeat("b", 5<<20))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Flush(&late{Context: ctx, left: 2}); !errors.Is(err, context.Canceled) || !ncerr.IsContext(err) {
		t.Errorf("flush: want context.Canceled, got %v", err)
	}
	wantContent(t, openZip(t, path, driver.Read, ""), map[string]string{"a": "1"})
	wantOnlyZips(t, filepath.Dir(path))
	flush(t, m)
	wantContent(t, openZip(t, path, driver.Read, ""), map[string]string{"a": "1", "b": strings.Repeat("b", 5<<20)})
}

// late is a context whose Err returns nil for the next left calls, and then the error
// of Context.
type late struct {
	context.Context
	left int
}

func (c *late) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	return c.Context.Err()
}

// shortBody declares more bytes than it has.
type shortBody struct{ driver.Bytes }

func (shortBody) Size() int64 { return 1000 }

func TestShortBody(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", `{"spill": 0}`} {
		m := openZip(t, filepath.Join(t.TempDir(), "x.zip"), driver.Create, options)
		put(t, m, "k", "old")
		_, err := m.Put(t.Context(), "k", shortBody{driver.Bytes("short")}, &driver.PutOptions{})
		if wantKind(t, "put", err, ncerr.ErrInvalid); get(t, m, "k") != "old" {
			t.Error("a failed put changed the object")
		}
		flush(t, m)
		wantContent(t, m, map[string]string{"k": "old"})
	}
}

func TestManyMembers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.zip")
	m := openZip(t, path, driver.Create, "")
	for i := range 70_000 {
		put(t, m, fmt.Sprintf("v/%d", i), "x")
	}
	flush(t, m)
	if n := len(stdContent(t, path)); n != 70_000 {
		t.Errorf("want 70000 members, but the standard library finds %d", n)
	}
	again := openZip(t, path, driver.Update, "")
	if len(content(t, again)) != 70_000 {
		t.Error("members are missing")
	}
	remove(t, again, "v/69999")
	flush(t, again)
	n := 0
	for range again.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		n++
	}
	if n != 69_999 || get(t, again, "v/69998") != "x" {
		t.Errorf("want 69999 members after deleting one, got %d", n)
	}
}

// TestPropertyAgainstOracle applies the same operations to an archive and to a plain
// map, and compares the two.
func TestPropertyAgainstOracle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapidseed.Check(t, func(r *rapid.T) {
		path := filepath.Join(dir, "x.zip")
		_ = os.Remove(path)
		options := rapid.SampledFrom([]string{"", `{"spill": 0}`, `{"spill": 300, "deflate": 1}`, `{"prefix": "auto"}`}).Draw(r, "options")
		opener := rapid.SampledFrom([]driver.Opener{zipdriver.New(), zipdriver.NewClosing()}).Draw(r, "opener")
		open := func(mode driver.Mode) driver.Map {
			m, err := opener.Open(t.Context(), driver.OpenSpec{Path: path, Mode: mode, Options: []byte(options), Documents: zarr.DocNames()})
			if err != nil {
				r.Fatal(err)
			}
			return m
		}
		key := rapid.Custom(func(r *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a-", ".zgroup", "é"}), 1, 3).Draw(r, "segments"), "/")
		})
		m, live, saved := open(driver.Create), map[string]string{}, map[string]string{}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0:
				flush(t, m)
				saved = maps.Clone(live)
			case 1:
				flush(t, m)
				if err := m.Close(t.Context()); err != nil {
					r.Fatal(err)
				}
				m, saved = open(driver.Update), maps.Clone(live)
			case 2:
				k := key.Draw(r, "delete")
				remove(t, m, k)
				delete(live, k)
			case 3:
				stepList(r, t, m, live, key)
			default:
				stepPut(r, t, m, live, key.Draw(r, "key"), rapid.StringN(0, 400, -1).Draw(r, "content"))
			}
		}
		if got := content(t, m); !maps.Equal(got, live) {
			r.Fatalf("content: want %q, got %q", live, got)
		}
		if err := m.Close(t.Context()); err != nil {
			r.Fatal(err)
		}
		if exists(path) {
			m = open(driver.Read)
			if got := content(t, m); !maps.Equal(got, saved) {
				r.Fatalf("on disk: want %q, got %q", saved, got)
			}
			if err := m.Close(t.Context()); err != nil {
				r.Fatal(err)
			}
		}
		wantOnlyZips(t, dir)
	})
}

// stepPut puts a key and expects an error exactly if one key would become a prefix of
// another.
func stepPut(r *rapid.T, t *testing.T, m driver.Map, live map[string]string, key, content string) {
	refused := false
	for other := range live {
		refused = refused || strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/")
	}
	_, err := m.Put(t.Context(), key, driver.Bytes(content), &driver.PutOptions{})
	switch {
	case refused && ncerr.KindOf(err) != ncerr.ErrObjectExists:
		r.Fatalf("put %q: want ErrObjectExists, got %v", key, err)
	case !refused && err != nil:
		r.Fatalf("put %q: %v", key, err)
	case !refused:
		live[key] = content
	}
}

// stepList compares a listing with the keys of the oracle below a prefix.
func stepList(r *rapid.T, t *testing.T, m driver.Map, live map[string]string, key *rapid.Generator[string]) {
	prefix, after := "", ""
	if rapid.Bool().Draw(r, "below") {
		prefix = key.Draw(r, "prefix") + "/"
	}
	if rapid.Bool().Draw(r, "resume") {
		after = prefix + key.Draw(r, "after")
	}
	deep := rapid.Bool().Draw(r, "recursive")
	want := map[string]string{}
	for k := range live {
		rest, ok := strings.CutPrefix(k, prefix)
		if !ok {
			continue
		}
		if seg, _, more := strings.Cut(rest, "/"); more && !deep {
			k = prefix + seg + "/"
		}
		if k > after {
			want[k] = ""
		}
	}
	var got []string
	for e, err := range m.List(t.Context(), prefix, &driver.ListOptions{Recursive: deep, StartAfter: after}) {
		if err != nil {
			r.Fatal(err)
		}
		if e.Prefix != strings.HasSuffix(e.Key, "/") || !e.Prefix && e.Info.Size != int64(len(live[e.Key])) {
			r.Fatalf("wrong entry %+v", e)
		}
		got = append(got, e.Key)
	}
	if fmt.Sprint(got) != fmt.Sprint(sortedKeys(want)) {
		r.Fatalf("list %q after %q: want %q, got %q", prefix, after, sortedKeys(want), got)
	}
}

// TestConcurrentFlush runs reads, writes, listings and flushes concurrently. Each read
// must return the latest content, and the archive must finally hold all objects.
func TestConcurrentFlush(t *testing.T) {
	t.Parallel()
	for name, opener := range map[string]driver.Opener{"open": zipdriver.New(), "closing": zipdriver.NewClosing()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.zip")
			m, err := opener.Open(t.Context(), driver.OpenSpec{Path: path, Mode: driver.Create, Options: []byte(`{"spill": 5000}`)})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					for i := range 60 {
						key, text := fmt.Sprintf("w%d/%d", w, i%10), strings.Repeat(fmt.Sprint(i, ","), 200)
						if _, err := m.Put(t.Context(), key, driver.Bytes(text), &driver.PutOptions{}); err != nil {
							t.Error(err)
						}
						if b, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap); err != nil || string(b) != text {
							t.Errorf("%s: %.20q, %v", key, b, err)
						}
						if i%20 == w {
							if err := m.Flush(t.Context()); err != nil {
								t.Error(err)
							}
						}
						for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
							if err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			flush(t, m)
			want := content(t, m)
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(want) != 40 || want["w3/9"] != strings.Repeat("59,", 200) {
				t.Errorf("want 40 objects and the last content, got %d, %.20q", len(want), want["w3/9"])
			}
			if got := stdContent(t, path); !maps.Equal(got, want) {
				t.Error("the archive differs from the content of the Map")
			}
			wantOnlyZips(t, filepath.Dir(path))
		})
	}
}
