package refs_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/testdns"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

func TestMain(m *testing.M) {
	testdns.Install(map[string]string{"here.example": "127.0.0.1", "private.example": "10.0.0.1"})
	os.Exit(m.Run())
}

// options returns options with the built-in drivers and codecs and a store in memory.
func options() *dataset.Options {
	return &dataset.Options{
		Registry: registry.New(append(builtin.New(), memmap.NewOpener()), filters.Provider()),
		Remote:   layer.RemoteOptions{Retry: layer.RetryOptions{Attempts: 1}},
	}
}

// int32s returns the stored form of little-endian numbers.
func int32s(values ...int32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return string(b)
}

// numbers returns a reference file with one array of the given number of chunks, each of two
// elements, and the values of the chunks.
func numbers(chunks int, values map[string]any) string {
	all := map[string]any{
		".zgroup":   map[string]any{"zarr_format": 2},
		"v/.zarray": fmt.Sprintf(`{"zarr_format": 2, "shape": [%d], "chunks": [2], "dtype": "<i4", "order": "C", "fill_value": -9, "filters": null, "compressor": null}`, 2*chunks),
		"v/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"], "units": "m"}`,
	}
	for key, value := range values {
		all[key] = value
	}
	text, err := json.Marshal(map[string]any{"version": 1, "templates": map[string]any{"u": "data.bin"}, "refs": all})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDataset reads, lists and copies a dataset of references to local files.
func TestDataset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"data.bin":      "head" + int32s(1, 2, 3, 4) + "tail",
		"sub/whole.bin": int32s(5, 6),
		"refs.json": numbers(6, map[string]any{
			"v/0": []any{"{{u}}", 4, 8}, "v/1": []any{filepath.Join(dir, "data.bin"), 12, 8}, "v/2": []any{"sub/whole.bin"},
			"v/3": "base64:" + base64.StdEncoding.EncodeToString([]byte(int32s(7, -8))), "v/5": int32s(10, 11), "v/6": []any{"outside the array"},
			"v/sub/.zgroup": map[string]any{"zarr_format": 2}, "s/.zarray": `{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<i4", "order": "C", "fill_value": 0, "filters": null, "compressor": null}`,
			"s/0": int32s(42),
		}),
	})
	name := filepath.Join(dir, "refs.json")
	ds, err := open.Open(t.Context(), name, options())
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close(t.Context())
	want := []int32{1, 2, 3, 4, 5, 6, 7, -8, -9, -9, 10, 11}
	check := func(ds *dataset.Dataset) {
		t.Helper()
		v, err := ds.Root().Var("v")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || !slices.Equal(got, want) {
			t.Errorf("want %v, got %v, %v", want, got, err)
		}
		part := chunk.Selection{Start: []int64{3}, Count: []int64{4}, Stride: []int64{2}}
		if got, err := dataset.Get[int32](t.Context(), v, part); err != nil || !slices.Equal(got, []int32{4, 6, -8, -9}) {
			t.Errorf("a part: got %v, %v", got, err)
		}
		s, err := ds.Root().Var("s")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dataset.Get[int32](t.Context(), s, s.All()); err != nil || !slices.Equal(got, []int32{42}) {
			t.Errorf("a scalar: got %v, %v", got, err)
		}
	}
	check(ds)
	v, err := ds.Root().Var("v")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := v.Stored(t.Context()); err != nil || s.Chunks != 5 || s.Bytes != 40 || s.Grid != 6 {
		t.Errorf("stored: got %+v, %v", s, err)
	}
	if err := v.Write(t.Context(), v.All(), want); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("write: %v", err)
	}
	o := options()
	copied, err := open.Create(t.Context(), "mem:copy", &dataset.CreateOptions{Options: *o})
	if err != nil {
		t.Fatal(err)
	}
	if err := dataset.Copy(t.Context(), copied.Root(), ds.Root(), nil); err != nil {
		t.Error(err)
	}
	check(copied)
	if err := copied.Close(t.Context()); err != nil {
		t.Error(err)
	}
	o = options()
	o.Update = true
	if _, err := open.Open(t.Context(), name, o); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("update: %v", err)
	}
	if _, err := open.Open(t.Context(), filepath.Join(dir, "none.json"), options()); ncerr.KindOf(err) != ncerr.ErrNoDataset {
		t.Errorf("a missing file: %v", err)
	}
}

// TestKeyView compares the key view of a dataset of references with a store in memory that has
// the same objects.
func TestKeyView(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nested := `{"zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "|u1", "order": "C", "fill_value": 0, "filters": null, "compressor": null, "dimension_separator": "/"}`
	write(t, dir, map[string]string{"data.bin": "0123456789abcdef", "refs.json": numbers(3, map[string]any{
		"v/0": []any{"data.bin", 2, 8}, "v/2": "12345678", "g/.zgroup": map[string]any{"zarr_format": 2}, "g/w/.zarray": nested,
		"g/w/0/0": []any{"data.bin", 0, 4}, "g/w/1/0": "wxyz", "g/w/1/1": []any{"data.bin", 12, 4},
	})})
	m, err := open.Store(t.Context(), filepath.Join(dir, "refs.json"), options())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	same := zmap.New(memmap.New(), nil)
	var refs struct{ Refs map[string]json.RawMessage }
	text, _ := os.ReadFile(filepath.Join(dir, "refs.json"))
	if err := json.Unmarshal(text, &refs); err != nil {
		t.Fatal(err)
	}
	content := map[string]string{"v/0": "23456789", "v/2": "12345678", "g/w/0/0": "0123", "g/w/1/0": "wxyz", "g/w/1/1": "cdef"}
	for key, value := range refs.Refs {
		body, chunk := content[key]
		if !chunk && json.Unmarshal(value, &body) != nil {
			body = string(value)
		}
		if _, err := same.Put(t.Context(), key, driver.Bytes(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"", "v", "v/", "g", "g/", "g/w/", "g/w/1/", "g/w/0", "x/", "v/0"} {
		for _, o := range []*zmap.ListOptions{{}, {Recursive: true}, {StartAfter: "g/w/0/0", Recursive: true}, {StartAfter: "g/"}} {
			list := func(m *zmap.Map) (keys []string) {
				for e, err := range m.List(t.Context(), prefix, o) {
					if err != nil {
						return append(keys, err.Error())
					}
					keys = append(keys, fmt.Sprint(e.Key, e.Prefix, max(e.Info.Size, 0)))
				}
				return keys
			}
			if got, want := list(m), list(same); !slices.Equal(got, want) {
				t.Errorf("list %q %+v:\nwant %q\ngot  %q", prefix, o, want, got)
			}
		}
		want, _ := same.Search(t.Context(), strings.TrimSuffix(prefix, "/"))
		if got, err := m.Search(t.Context(), strings.TrimSuffix(prefix, "/")); err != nil || !slices.Equal(got, want) {
			t.Errorf("search %q: want %q, got %q, %v", prefix, want, got, err)
		}
	}
	for key := range refs.Refs {
		for _, o := range []*zmap.GetOptions{nil, {Range: &zmap.Range{Offset: 1, Length: 2}}, {Range: &zmap.Range{Offset: -3, Length: -1}}, {Range: &zmap.Range{Offset: 2, Length: -1}}, {Range: &zmap.Range{Offset: 3, Length: 1000}}, {Limit: 3}} {
			want, info, wantErr := same.Get(t.Context(), key, o, nil)
			got, gotInfo, err := m.Get(t.Context(), key, o, nil)
			if string(got) != string(want) || ncerr.KindOf(err) != ncerr.KindOf(wantErr) || err == nil && gotInfo.Size != info.Size {
				t.Errorf("get %q %+v: want %q %v, got %q %v", key, o, want, wantErr, got, err)
			}
		}
		want, _ := same.Stat(t.Context(), key)
		if got, err := m.Stat(t.Context(), key); err != nil || got.Size != want.Size {
			t.Errorf("stat %q: got %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{"v/1", "v/3", "v/00", "v/0/0", "g/w/0.0", "g/w/0/1", "x", "g", "0"} {
		if _, _, err := m.ReadAll(t.Context(), key, 0); ncerr.KindOf(err) != ncerr.ErrNotFound {
			t.Errorf("get %q: %v", key, err)
		}
	}
	if _, err := m.Put(t.Context(), "v/1", driver.Bytes("x"), nil); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("put: %v", err)
	}
}

// TestHostileFiles checks that references of a local dataset cannot read files outside its
// directory, and that a missing or short object is an error and not fill.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"secret": int32s(1, 2), "set/short": "1234", "set/good": int32s(3, 4), "other/x": int32s(5, 6)})
	for _, link := range [][2]string{{"../secret", "set/link"}, {filepath.Join(dir, "secret"), "set/absolute"}, {"..", "set/up"}, {"good", "set/inside"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Skip("the file system has no symbolic links")
		}
	}
	for ref, kind := range map[string]ncerr.Kind{
		"good": 0, "inside": 0, "./good": 0, filepath.Join(dir, "set", "good"): 0, "file://" + filepath.Join(dir, "set", "good"): 0,
		"link": ncerr.ErrPermission, "absolute": ncerr.ErrPermission, "up/secret": ncerr.ErrPermission, "../secret": ncerr.ErrPermission, "x/../../secret": ncerr.ErrPermission,
		filepath.Join(dir, "secret"): ncerr.ErrPermission, "file://" + filepath.Join(dir, "secret"): ncerr.ErrPermission, "/etc/passwd": ncerr.ErrPermission,
		"file://" + dir + "/set/%2e%2e/secret": ncerr.ErrPermission, "file://" + dir + "/set/..%2fsecret": ncerr.ErrBadURL, `..\secret`: ncerr.ErrBadURL,
		"%2e%2e/secret": ncerr.ErrNoObject, "missing": ncerr.ErrNoObject, "up": ncerr.ErrPermission, ".": ncerr.ErrPermission, "short": ncerr.ErrCorrupt, "set/../../other/x": ncerr.ErrPermission,
		"http://127.0.0.1:1/x": ncerr.ErrPermission, "s3://bucket/x": ncerr.ErrPermission,
	} {
		for _, value := range []any{[]any{ref}, []any{ref, 0, 8}} {
			name := filepath.Join(dir, "set", "refs.json")
			write(t, dir, map[string]string{"set/refs.json": numbers(2, map[string]any{"v/0": value, "v/1": int32s(7, 8)})})
			ds, err := open.Open(t.Context(), name, options())
			if err != nil {
				t.Fatal(err)
			}
			v, err := ds.Root().Var("v")
			if err != nil {
				t.Fatal(err)
			}
			got, err := dataset.Get[int32](t.Context(), v, v.All())
			if ncerr.KindOf(err) != kind || kind == 0 && !slices.Equal(got, []int32{3, 4, 7, 8}) {
				t.Errorf("%v: want %v, got %v, %v", value, kind, got, err)
			}
			// The rest of the array is readable.
			if got, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{2}, Count: []int64{2}}); err != nil || !slices.Equal(got, []int32{7, 8}) {
				t.Errorf("%v: the other chunk: %v, %v", value, got, err)
			}
			_ = ds.Close(t.Context())
		}
	}
	o := options()
	o.References.Allow = []store.Prefix{{URL: filepath.Join(dir, "other")}}
	write(t, dir, map[string]string{"set/refs.json": numbers(2, map[string]any{"v/0": []any{"../other/x"}, "v/1": []any{"file://" + dir + "/other/x", 0, 8}})})
	if got, err := get(t, filepath.Join(dir, "set", "refs.json"), o); err != nil || !slices.Equal(got, []int32{5, 6, 5, 6}) {
		t.Errorf("with an allowed directory: %v, %v", got, err)
	}
}

// TestCopyOverDataset copies a dataset of references over an existing dataset that is not in a
// directory.
func TestCopyOverDataset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"refs.json": numbers(1, map[string]any{"v/0": []any{"x", 0, 8}}), "x": int32s(3, 4)})
	o := options()
	src, err := open.Open(t.Context(), filepath.Join(dir, "refs.json"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close(t.Context())
	for range 2 { // the second copy replaces the first one
		loc, err := open.Locate("mem:over", o, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := dataset.CheckOverlap(t.Context(), src, loc, o); err != nil {
			t.Fatal(err)
		}
		dst, err := dataset.Create(t.Context(), loc, &dataset.CreateOptions{Options: *o, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil); err != nil {
			t.Error(err)
		}
		if err := dst.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := get(t, "mem:over", o); err != nil || !slices.Equal(got, []int32{3, 4}) {
		t.Errorf("the copy: %v, %v", got, err)
	}
}

// get reads the array of a dataset.
func get(t *testing.T, url string, o *dataset.Options) ([]int32, error) {
	t.Helper()
	ds, err := open.Open(t.Context(), url, o)
	if err != nil {
		return nil, err
	}
	defer ds.Close(t.Context())
	v, err := ds.Root().Var("v")
	if err != nil {
		return nil, err
	}
	return dataset.Get[int32](t.Context(), v, v.All())
}

// server serves objects and records the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // path and Authorization
}

func (s *server) port() string { return s.URL[strings.LastIndexByte(s.URL, ':')+1:] }

func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requests = nil }()
	return s.requests
}

func serve(t *testing.T, objects map[string]string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.URL.RequestURI()+" "+r.Header.Get("Authorization")))
		s.mu.Unlock()
		body, ok := objects[r.URL.Path]
		if to, redirect := strings.CutPrefix(body, "redirect:"); redirect {
			http.Redirect(w, r, to, http.StatusFound)
		} else if ok {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
		} else {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestHostileServers checks that references of a remote dataset reach only the server and
// directory of the reference file, and that no login of the user reaches a place that only
// references name.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	objects := map[string]string{"/set/good": int32s(3, 4), "/secret": int32s(1, 2), "/more/x": int32s(5, 6)}
	s := serve(t, objects)
	netrc := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(netrc, []byte("machine 127.0.0.1:"+s.port()+" login me password hush\nmachine localhost:"+s.port()+" login me password hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	login := func() *dataset.Options {
		o := options()
		o.DriverOptions = map[string][]byte{"http": []byte(`{"netrc": ` + string(must(json.Marshal(netrc))) + `}`)}
		return o
	}
	for ref, kind := range map[string]ncerr.Kind{
		"good": 0, s.URL + "/set/good": 0, s.URL + "/set/./good": 0,
		s.URL + "/secret": ncerr.ErrPermission, "../secret": ncerr.ErrPermission, s.URL + "/set/%2e%2e/secret": ncerr.ErrPermission, s.URL + "/set/..%2fsecret": ncerr.ErrBadURL,
		s.URL + "/set/%252e%252e/secret": ncerr.ErrNoObject, s.URL + "/set/good?x=1": ncerr.ErrBadURL, "http://me@127.0.0.1:" + s.port() + "/set/good": ncerr.ErrBadURL,
		"http://localhost:" + s.port() + "/set/good": ncerr.ErrPermission, "http://here.example:" + s.port() + "/set/good": ncerr.ErrPermission,
		"http://0x7f000001:" + s.port() + "/set/good": ncerr.ErrPermission, "http://2130706433:" + s.port() + "/secret": ncerr.ErrPermission, "http://[::ffff:127.0.0.1]:" + s.port() + "/secret": ncerr.ErrPermission,
		"http://169.254.169.254/latest": ncerr.ErrPermission, "/etc/passwd": ncerr.ErrPermission, "file:///etc/passwd": ncerr.ErrPermission, "s3://bucket/x": ncerr.ErrPermission,
	} {
		objects["/set/refs.json"] = numbers(1, map[string]any{"v/0": []any{ref, 0, 8}})
		got, err := get(t, s.URL+"/set/refs.json", login())
		if ncerr.KindOf(err) != kind || kind == 0 && !slices.Equal(got, []int32{3, 4}) {
			t.Errorf("%s: want %v, got %v, %v", ref, kind, got, err)
		}
		for _, r := range s.take() {
			if !strings.HasPrefix(r, "/set/") || !strings.HasSuffix(r, " Basic bWU6aHVzaA==") { // the login of the user's own URL
				t.Errorf("%s: unexpected request %s", ref, r)
			}
		}
	}

	dir := t.TempDir()
	for _, c := range []struct {
		prefix  store.Prefix
		local   bool
		ref     string
		kind    ncerr.Kind
		request string
	}{
		{store.Prefix{URL: s.URL + "/more/"}, false, s.URL + "/more/x", 0, "/more/x"},
		{store.Prefix{URL: "http://localhost:" + s.port() + "/more"}, false, "http://localhost:" + s.port() + "/more/x", 0, "/more/x"},
		{store.Prefix{URL: "http://here.example:" + s.port()}, false, "http://here.example:" + s.port() + "/more/x", ncerr.ErrPermission, ""},
		{store.Prefix{URL: "http://here.example:" + s.port()}, true, "http://here.example:" + s.port() + "/more/x", 0, "/more/x"},
		{store.Prefix{URL: "http://private.example"}, false, "http://private.example/x", ncerr.ErrPermission, ""},
		// A proxy that answers for a public server redirects to a private address.
		{store.Prefix{URL: "http://data.example", Options: []byte(`{"proxy": "` + s.URL + `"}`)}, false, "http://data.example/away", ncerr.ErrPermission, "/away"},
		{store.Prefix{URL: "http://data.example", Options: []byte(`{"proxy": "` + s.URL + `"}`)}, false, "http://data.example/more/x", 0, "/more/x"},
		{store.Prefix{URL: s.URL + "/more/?token=mine"}, false, s.URL + "/more/x", 0, "/more/x?token=mine"},
	} {
		objects["/away"] = "redirect:http://10.0.0.1/x"
		write(t, dir, map[string]string{"refs.json": numbers(1, map[string]any{"v/0": []any{c.ref, 0, 8}})})
		o := login()
		o.References.Allow, o.References.AllowLocal = []store.Prefix{c.prefix}, c.local
		got, err := get(t, filepath.Join(dir, "refs.json"), o)
		if ncerr.KindOf(err) != c.kind || c.kind == 0 && !slices.Equal(got, []int32{5, 6}) {
			t.Errorf("%s: want %v, got %v, %v", c.prefix.URL, c.kind, got, err)
		}
		if requests := s.take(); strings.Join(requests, " ") != c.request { // without a login
			t.Errorf("%s: want request %q, got %q", c.prefix.URL, c.request, requests)
		}
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}
