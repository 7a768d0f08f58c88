package http_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
)

func hostile(t *testing.T, handle http.HandlerFunc) driver.Map {
	t.Helper()
	srv := httptest.NewServer(handle)
	t.Cleanup(srv.Close)
	m, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: srv.URL, Path: "d"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestKeyEncoding checks that keys arrive unchanged, even on servers that, like S3,
// read a plus sign as a space, or that support parameters in a path.
func TestKeyEncoding(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"a+b/0":     "/d/a%2Bb/0",
		"a b":       "/d/a%20b",
		"%2e%2e/x":  "/d/%252e%252e/x",
		"a?b#c":     "/d/a%3Fb%23c",
		"a;b=c&d":   "/d/a%3Bb%3Dc%26d",
		"é":         "/d/%C3%A9",
		"v/.zarray": "/d/v/.zarray",
	} {
		var got string
		m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.RequestURI
			fmt.Fprint(w, "x")
		})
		if _, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap); err != nil || got != want {
			t.Errorf("%s: want %s, got %s, %v", key, want, got, err)
		}
	}
}

// TestNoRanges checks that Info.NoRanges is set if reading a range requires reading
// everything before it.
func TestNoRanges(t *testing.T) {
	t.Parallel()
	for name, ranges := range map[string]bool{"ranges": true, "no ranges": false} {
		m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			if ranges {
				http.ServeContent(w, r, "0", time.Unix(1e9, 0), bytes.NewReader(make([]byte, 1<<24)))
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(1<<24))
			_, _ = w.Write(make([]byte, 1<<24))
		})
		o := &driver.GetOptions{Range: &driver.Range{Offset: 1 << 20, Length: 8}}
		if data, info, err := m.Get(t.Context(), "v/0", o, driver.Heap); err != nil || len(data) != 8 || info.NoRanges == ranges {
			t.Errorf("%s: want 8 bytes and the right NoRanges, got %v, %+v, %v", name, data, info, err)
		}
	}
}

// TestStatTakesNoMemory checks that Stat limits the size of an object that it has to
// read completely.
func TestStatTakesNoMemory(t *testing.T) {
	t.Parallel()
	m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Header.Get("Range") != "":
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		default:
			w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<60))
		}
	})
	if _, err := m.Stat(t.Context(), "v/0"); ncerr.KindOf(err) != ncerr.ErrLimit {
		t.Errorf("want ErrLimit, got %v", err)
	}
}

// TestChunkLikeHTML checks that a chunk whose first bytes look like HTML is read
// correctly from a server that sniffs the content type, like net/http.
func TestChunkLikeHTML(t *testing.T) {
	t.Parallel()
	long := "\n<a >" + strings.Repeat("\x01\xff", 100)
	readLikeHTML(t, long)
	readLikeHTML(t, long[:60])
}

func readLikeHTML(t *testing.T, chunk string) {
	t.Helper()
	for name, ranges := range map[string]bool{"ranges": true, "no ranges": false} {
		m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			if !ranges {
				r.Header.Del("Range")
			}
			http.ServeContent(w, r, "v/0.0", time.Time{}, strings.NewReader(chunk))
		})
		for _, r := range []*driver.Range{nil, {Length: 3}, {Length: 100}, {Offset: 50, Length: 8}, {Offset: 50, Length: -1}, {Offset: -9, Length: -1}} {
			if r != nil && r.Length > int64(len(chunk)) {
				continue
			}
			o := &driver.GetOptions{Range: r}
			want := chunk
			if r != nil {
				start, n, err := r.Resolve(int64(len(chunk)))
				if err != nil {
					t.Fatal(err)
				}
				want = chunk[start : start+n]
			}
			if got, _, err := m.Get(t.Context(), "v/0.0", o, driver.Heap); string(got) != want || err != nil {
				t.Errorf("%s, %+v: want %q, got %q, %v", name, r, want, got, err)
			}
		}
	}
}

// TestPageForRange checks that a part of the page that a web application returns for
// every missing path is not read as a part of a chunk.
func TestPageForRange(t *testing.T) {
	t.Parallel()
	page := "<!doctype html>" + strings.Repeat("<p>hello", 100)
	for name, ranges := range map[string]bool{"ranges": true, "no ranges": false} {
		m := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			if !ranges {
				r.Header.Del("Range")
			}
			http.ServeContent(w, r, "index.html", time.Time{}, strings.NewReader(page))
		})
		data, _, err := m.Get(t.Context(), "v/0.0", &driver.GetOptions{Range: &driver.Range{Offset: 16, Length: 8}}, driver.Heap)
		if ncerr.KindOf(err) != ncerr.ErrNotZarr {
			t.Errorf("%s: want ErrNotZarr, got %q, %v", name, data, err)
		}
	}
}

// TestWithoutDocuments checks that without a list of documents, the first bytes of an
// object with an HTML type decide whether it is a page.
func TestWithoutDocuments(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]ncerr.Kind{"{}": 0, "<!doctype html><p>hello": ncerr.ErrNotZarr} {
		srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, content)
		})
		known := open(t, srv, "")
		if _, _, err := known.Get(t.Context(), ".zgroup", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrNotZarr {
			t.Errorf("%q as a document: want ErrNotZarr, got %v", content, err)
		}
		m, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: srv, Path: "d"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(t.Context())
		if data, _, err := m.Get(t.Context(), ".zgroup", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != want || err == nil && string(data) != content {
			t.Errorf("%q: got %q, %v", content, data, err)
		}
	}
}
