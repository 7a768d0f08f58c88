package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	httpdriver "github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/internal/web/webtest"
)

// open opens the driver on a server.
func open(t *testing.T, url, options string) driver.Map {
	t.Helper()
	m, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: url, Path: "/d", Options: []byte(options), Documents: zarr.DocNames()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.WithoutCancel(t.Context())) })
	return m
}

// serve starts a server with the handler h and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// part returns a handler that sends the status 206 and the given range and content.
func part(contentRange, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", contentRange)
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, body)
	}
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, "some page")
	}
}

// cut announces more bytes than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	fmt.Fprint(w, "0123")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// TestResponses checks the errors for responses of all kinds: a wrong response is never
// returned as a value, and only an unambiguous response means that an object is missing.
func TestResponses(t *testing.T) {
	t.Parallel()
	mid := &driver.Range{Offset: 2, Length: 3}
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		key     string
		opts    driver.GetOptions
		options string
		want    string
		kind    ncerr.Kind
		again   bool
		after   time.Duration
		text    string
	}{
		"absent":                 {answer: status(404), kind: ncerr.ErrNotFound},
		"gone":                   {answer: status(410), kind: ncerr.ErrNotFound},
		"forbidden":              {answer: status(403), kind: ncerr.ErrPermission},
		"login":                  {answer: status(401), kind: ncerr.ErrAuth},
		"proxy login":            {answer: status(407), kind: ncerr.ErrAuth},
		"other version":          {answer: status(412), kind: ncerr.ErrConflict},
		"teapot":                 {answer: status(418), kind: ncerr.ErrIO, text: "418"},
		"no content":             {answer: status(204), kind: ncerr.ErrIO},
		"not modified":           {answer: status(304), kind: ncerr.ErrIO},
		"server error":           {answer: status(500), kind: ncerr.ErrIO, again: true},
		"unavailable for 7 s":    {answer: status(503, "Retry-After", "7"), kind: ncerr.ErrIO, again: true, after: 7 * time.Second},
		"too many requests":      {answer: status(429, "Retry-After", "x"), kind: ncerr.ErrIO, again: true},
		"multiple choices":       {answer: status(300), kind: ncerr.ErrIO},
		"redirect to nowhere":    {answer: status(302), kind: ncerr.ErrIO},
		"encoded":                {answer: status(200, "Content-Encoding", "gzip"), kind: ncerr.ErrUnsupported, text: "gzip"},
		"identity":               {answer: status(200, "Content-Encoding", "identity"), want: "some page"},
		"cut":                    {answer: cut, want: "0123", kind: ncerr.ErrIO, again: true, text: "4 of 10"},
		"part without a range":   {answer: part("bytes 0-1/2", "ab"), kind: ncerr.ErrIO, again: true},
		"range":                  {answer: part("bytes 2-4/9", "abc"), opts: driver.GetOptions{Range: mid}, want: "abc"},
		"another range":          {answer: part("bytes 3-5/9", "abc"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"shorter range":          {answer: part("bytes 2-3/9", "ab"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"range of unknown whole": {answer: part("bytes 2-4/*", "abc"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"range without header":   {answer: part("", "abc"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"range in other units":   {answer: part("lines 2-4/9", "abc"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"range, wrong length":    {answer: part("bytes 2-4/9", "abcd"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"range past the end":     {answer: part("bytes 2-3/4", "ab"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrRange},
		"416":                    {answer: status(416, "Content-Range", "bytes */2"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrRange},
		"416 inside":             {answer: status(416, "Content-Range", "bytes */9"), opts: driver.GetOptions{Range: mid}, kind: ncerr.ErrIO, again: true},
		"whole for a range":      {answer: status(200, "Content-Length", "9"), opts: driver.GetOptions{Range: mid}, want: "me "},
		"whole for a distant range": {
			answer: status(200, "Content-Length", "9"), opts: driver.GetOptions{Range: mid}, options: `{"max_skip": 1}`,
			kind: ncerr.ErrUnsupported, text: "does not support ranges",
		},
		"another version": {answer: status(200, "ETag", `"a"`), opts: driver.GetOptions{IfMatch: `"b"`}, kind: ncerr.ErrConflict},
		"weak version":    {answer: status(200, "ETag", `W/"b"`), opts: driver.GetOptions{IfMatch: `"b"`}, kind: ncerr.ErrConflict},
		"too long":        {answer: status(200), opts: driver.GetOptions{Limit: 8}, kind: ncerr.ErrLimit},
		"page for a document": {
			answer: status(200, "Content-Type", "text/html; charset=utf-8"), key: "a/.zarray", kind: ncerr.ErrNotZarr, text: "HTML page",
		},
		"page for a chunk": {
			answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html><p>app") }, kind: ncerr.ErrNotZarr,
		},
		"text for a chunk": {answer: status(200, "Content-Type", "text/html"), want: "some page"},
		"endless redirects": {
			answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/d/x"+r.URL.Path, http.StatusFound) },
			kind:   ncerr.ErrIO, text: "more than 10 redirects",
		},
		"directory": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
			}, kind: ncerr.ErrNotFound,
		},
		"redirect to a file": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "file:///etc/passwd")
				w.WriteHeader(302)
			},
			kind: ncerr.ErrUnsupported,
		},
		"late": {
			answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, options: `{"first_byte_timeout": "30ms"}`,
			kind: ncerr.ErrIO, again: true, text: "timed out after 30ms",
		},
		"unannounced and too long": {
			answer:  func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); fmt.Fprint(w, "0123456789") },
			options: `{"max_blind": 9}`, kind: ncerr.ErrUnsupported, text: "max_blind",
		},
		"unannounced and beyond the limit": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				for w.(http.Flusher).Flush(); r.Context().Err() == nil; { // never ends
					fmt.Fprint(w, "0123456789")
				}
			},
			opts: driver.GetOptions{Limit: 9}, kind: ncerr.ErrLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.key == "" {
				tc.key = "a/0.0"
			}
			m := open(t, serve(t, tc.answer), tc.options)
			got, _, err := m.Get(t.Context(), tc.key, &tc.opts, driver.Heap)
			if string(got) != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
			again, after := ncerr.Retry(err)
			if ncerr.KindOf(err) != tc.kind || again != tc.again || after != tc.after || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("want %s (again %v after %v) with %q, got %v (again %v after %v)", tc.kind.Name(), tc.again, tc.after, tc.text, err, again, after)
			}
		})
	}
}

// TestRangeWithoutLength checks that reading a range of an object without a length
// returns the right bytes and buffers only the range.
func TestRangeWithoutLength(t *testing.T) { //nolint:paralleltest // the test measures memory
	const size = 32 << 20
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for range size / len(block) {
			_, _ = w.Write(block)
		}
	})
	m := open(t, url, "")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range []struct {
		part driver.Range
		want string
		kind ncerr.Kind
	}{
		{driver.Range{Offset: 16, Length: 4}, "0123", 0},
		{driver.Range{Offset: size - 2, Length: 2}, "ef", 0},
		{driver.Range{Offset: size - 2, Length: 3}, "", ncerr.ErrRange},
		{driver.Range{Offset: size + 1, Length: 1}, "", ncerr.ErrRange},
	} {
		got, info, err := m.Get(t.Context(), "v/0", &driver.GetOptions{Range: &c.part}, driver.Heap)
		if string(got) != c.want || ncerr.KindOf(err) != c.kind || info.Size != size {
			t.Errorf("%+v: %q, %+v, %v", c.part, got, info, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > size/2 {
		t.Errorf("four parts of a few bytes took %d bytes of memory", n)
	}
	got, _, err := m.Get(t.Context(), "v/0", &driver.GetOptions{Range: &driver.Range{Offset: size - 3, Length: -1}}, driver.Heap)
	if string(got) != "def" || err != nil {
		t.Errorf("read to the end: want \"def\", got %q, %v", got, err)
	}
}

// TestSharedBlindLimit checks that all responses without a length share max_blind.
func TestSharedBlindLimit(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 80<<10)
	asked, proceed := make(chan struct{}), make(chan struct{})
	m := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.Write(body)
		if strings.HasSuffix(r.URL.Path, "/slow") {
			w.(http.Flusher).Flush()
			close(asked)
			<-proceed
		}
	}), `{"max_blind": 102400}`)
	get := func(key string) error {
		got, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
		if err == nil && !bytes.Equal(got, body) {
			t.Errorf("get %s: want the stored body, got %d bytes", key, len(got))
		}
		return err
	}
	slow := make(chan error)
	go func() { slow <- get("slow") }()
	<-asked
	for m.(*httpdriver.Map).Held() < int64(len(body)) { // only this driver's Map has the method Held
		time.Sleep(time.Millisecond) // not all bytes have arrived yet
	}
	err := get("other")
	if ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), "max_blind") {
		t.Errorf("get while another get is running: want ErrUnsupported with max_blind, got %v", err)
	}
	close(proceed)
	if err := <-slow; err != nil {
		t.Errorf("the first get: %v", err)
	}
	if err := get("other"); err != nil {
		t.Errorf("get after the other get: %v", err)
	}
}

// TestSlowBodies checks that a slow body is read completely, and that a body that stops
// is abandoned.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stops bool
		want  string
		kind  ncerr.Kind
		text  string
	}{
		"slow but steady": {want: "0123456789"},
		"stalled":         {stops: true, want: "0123", kind: ncerr.ErrIO, text: "waiting for more data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := open(t, webtest.URL, `{"stall_timeout": "5s"}`)
				httpdriver.SetDial(t, m, webtest.Serve(t, slowly(time.Second, tc.stops)))
				got, _, err := m.Get(t.Context(), "a/0.0", &driver.GetOptions{}, driver.Heap)
				again, _ := ncerr.Retry(err)
				if string(got) != tc.want || ncerr.KindOf(err) != tc.kind || again != tc.stops || !strings.Contains(fmt.Sprint(err), tc.text) {
					t.Errorf("want %q, %s with %q, got %q, %v", tc.want, tc.kind.Name(), tc.text, got, err)
				}
			})
		})
	}
}

// slowly sends ten bytes, one per unit of time. If stops is set, it sends four bytes
// immediately and then stops.
func slowly(unit time.Duration, stops bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if stops {
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "0123")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		for _, c := range "0123456789" {
			fmt.Fprint(w, string(c))
			w.(http.Flusher).Flush()
			time.Sleep(unit)
		}
	}
}

// TestUnreachable checks that an unreachable server is not reported as a missing object.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	const unused = "http://127.0.0.1:1" // a port that the system never assigns automatically
	_, err := open(t, unused, `{"query": "sig=hush"}`).Stat(t.Context(), "k")
	if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || !again || strings.Contains(err.Error(), "hush") {
		t.Errorf("want a retryable ErrIO without the query, got %v", err)
	}
}

// TestStatWithoutHead checks that Stat returns the size for servers that refuse HEAD or
// omit the length in its response.
func TestStatWithoutHead(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]http.HandlerFunc{
		"refused": status(405),
		"no length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Transfer-Encoding", "chunked")
			w.WriteHeader(200)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					head(w, r)
					return
				}
				http.ServeContent(w, r, "x", time.Unix(1e9, 0), bytes.NewReader(make([]byte, 1234)))
			}), "")
			i, err := m.Stat(t.Context(), "k")
			if err != nil || i.Size != 1234 || i.Version == "" || i.ModTime.Unix() != 1e9 {
				t.Errorf("want size 1234, a version and the time of the header, got %+v, %v", i, err)
			}
		})
	}
}

// TestHeadRefused checks that Stat uses the response to a GET after a refused HEAD,
// including for an empty object.
func TestHeadRefused(t *testing.T) {
	t.Parallel()
	content := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x", time.Unix(1e9, 0), bytes.NewReader(make([]byte, n)))
		}
	}
	ignoring := func(n int) http.HandlerFunc { // a server that ignores ranges
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, n)) }
	}
	bare416 := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
	}
	for _, head := range []int{400, 403, 404, 405, 410, 501} {
		for name, tc := range map[string]struct {
			get  http.HandlerFunc
			size int64
			want ncerr.Kind
		}{
			"exists":            {get: content(1234), size: 1234},
			"empty":             {get: content(0)},
			"empty, bare 416":   {get: bare416},
			"without ranges":    {get: ignoring(100), size: 100},
			"missing":           {get: status(404), want: ncerr.ErrNotFound},
			"gone":              {get: status(410), want: ncerr.ErrNotFound},
			"forbidden":         {get: status(403), want: ncerr.ErrPermission},
			"not allowed":       {get: status(405), want: ncerr.ErrIO},
			"other range":       {get: part("bytes 5-5/10", "x"), want: ncerr.ErrIO},
			"416 of an object":  {get: status(416, "Content-Range", "bytes */7"), want: ncerr.ErrIO},
			"416 and no object": {get: status(416), want: ncerr.ErrIO},
		} {
			t.Run(fmt.Sprint(head, " ", name), func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				m := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
					if n := asked.Add(1); n > 10 {
						t.Error("the driver sends more than 10 requests")
						panic(http.ErrAbortHandler)
					}
					if r.Method == http.MethodHead {
						w.WriteHeader(head)
						return
					}
					tc.get(w, r)
				}), "")
				i, err := m.Stat(t.Context(), "k")
				if ncerr.KindOf(err) != tc.want || err == nil && i.Size != tc.size {
					t.Errorf("stat: got %+v, %v", i, err)
				}
				if name == "exists" || tc.want != 0 {
					return
				}
				r := driver.Range{Offset: -5, Length: -1}
				data, _, err := m.Get(t.Context(), "k", &driver.GetOptions{Range: &r}, driver.Heap)
				if err != nil || int64(len(data)) != min(tc.size, 5) {
					t.Errorf("suffix of 5 bytes: got %d bytes, %v", len(data), err)
				}
			})
		}
	}
}

// TestQueryAndHeaders checks the query and the headers of requests.
func TestQueryAndHeaders(t *testing.T) {
	t.Parallel()
	m := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.RequestURI, " ", r.Header.Get("Accept-Encoding"), " ", r.Header.Get("User-Agent"))
	}), `{"query": "sv=1&sig=a%2Fb", "user_agent": "me"}`)
	got, _, err := m.Get(t.Context(), "ä b/0.0", &driver.GetOptions{}, driver.Heap)
	if want := "/d/%C3%A4%20b/0.0?sv=1&sig=a%2Fb identity me"; err != nil || string(got) != want {
		t.Errorf("want %q, got %q, %v", want, got, err)
	}
}

// TestCredentials checks which servers receive which user name and password.
func TestCredentials(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		fmt.Fprint(w, user, ":", password, " ", r.Header.Get("Referer"))
	}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chain" {
			http.Redirect(w, r, "/x", http.StatusFound)
			return
		}
		echo(w, r)
	}))
	t.Cleanup(there.Close)
	// elsewhere is the same server under another host name.
	elsewhere := strings.Replace(there.URL, "127.0.0.1", "localhost", 1)
	home := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/farther") {
			http.Redirect(w, r, elsewhere+"/chain", http.StatusFound)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/away") {
			http.Redirect(w, r, elsewhere+"/x", http.StatusFound)
			return
		}
		echo(w, r)
	})
	netrcOf := func(text string) string {
		name := filepath.Join(t.TempDir(), "netrc")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	at, _ := url.Parse(home)
	other, _ := url.Parse(elsewhere)
	netrc := netrcOf("machine " + at.Host + " login nr password #p\n")
	both := netrcOf("machine " + other.Host + "\n login away password w\ndefault login any password d\n")
	hosts := netrcOf("machine 127.0.0.1 login nr password #p\nmachine localhost login away password w\n")
	for _, tc := range []struct{ options, key, want string }{
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q}`, home), "k", "u:p "},
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q}`, home+"/"), "k", "u:p "},
		{`{"user": "u", "password": "p", "origin": "http://127.0.0.1:1"}`, "k", ": "},
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q}`, strings.Replace(home, "http", "https", 1)), "k", ": "},
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q}`, elsewhere), "k", ": "},
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q, "query": "sig=s"}`, home), "away", ": "},
		{fmt.Sprintf(`{"netrc": %q}`, netrc), "k", "nr:#p "},
		{fmt.Sprintf(`{"netrc": %q}`, netrc), "away", ": "},
		{fmt.Sprintf(`{"user": "u", "password": "p", "origin": %q, "query": "sig=s"}`, home), "farther", ": "},
		{fmt.Sprintf(`{"netrc": %q}`, netrc), "farther", ": "},
		{fmt.Sprintf(`{"netrc": %q}`, both), "farther", "away:w "},
		{fmt.Sprintf(`{"netrc": %q}`, both), "away", "away:w "},
		{fmt.Sprintf(`{"netrc": %q}`, both), "k", ": "},
		{fmt.Sprintf(`{"netrc": %q}`, hosts), "k", ": "}, // a host without a port is port 443
		{fmt.Sprintf(`{"netrc": %q}`, hosts), "away", ": "},
		{fmt.Sprintf(`{"netrc": %q, "user": "u", "origin": %q}`, netrc, home), "k", "u: "},
	} {
		got, _, err := open(t, home, tc.options).Get(t.Context(), tc.key, &driver.GetOptions{}, driver.Heap)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s, %s: want %q, got %q, %v", tc.options, tc.key, tc.want, got, err)
		}
	}
	for _, options := range []string{
		`{"user": "u", "password": "hush"}`,
		`{"password": "hush", "origin": "http://data.example"}`,
		`{"user": "u", "origin": "data.example"}`,
		`{"user": "u", "origin": "ftp://data.example"}`,
		fmt.Sprintf(`{"user": "u", "origin": %q, "proxy": "http://proxy.example"}`, home),
	} {
		_, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: home, Path: "/d", Options: []byte(options)})
		if ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), "origin") || strings.Contains(err.Error(), "hush") {
			t.Errorf("open with options %s: want ErrInvalid about origin, got %v", options, err)
		}
	}
	_, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: home, Path: "/d", Options: []byte(`{"netrc": "/no/such/file"}`)})
	if ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("open with a missing netrc file: want an error, got %v", err)
	}
}

// TestUnencryptedLogin checks that a login is not sent unencrypted to another machine.
// The requests go to a proxy that returns the login that it receives.
func TestUnencryptedLogin(t *testing.T) {
	t.Parallel()
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Authorization")) })
	netrc := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(netrc, []byte("machine data.invalid login u password p\nmachine data.invalid:80 login u password p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := open(t, "http://data.invalid", fmt.Sprintf(`{"proxy": %q, "netrc": %q}`, proxy, netrc))
	got, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err != nil || len(got) != 0 {
		t.Errorf("want no login in the requests, got %q, %v", got, err)
	}
}

// TestReadableNetrc checks that a netrc file that others can access is not used, and that
// it causes an error only if an option names the file or the file contains a login for
// the server.
func TestReadableNetrc(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("NETRC", "")
	name := filepath.Join(home, ".netrc")
	if err := os.WriteFile(name, []byte("machine data.invalid login u password hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode              os.FileMode
		endpoint, options string
		want              error
	}{
		{0o600, "https://data.invalid", "", nil},
		{0o400, "https://data.invalid", "", nil},
		{0o644, "https://data.invalid", "", ncerr.ErrPermission},
		{0o620, "https://data.invalid", "", ncerr.ErrPermission},
		{0o644, "https://other.invalid", "", nil},
		{0o644, "https://other.invalid", fmt.Sprintf(`{"netrc": %q}`, name), ncerr.ErrPermission},
	} {
		if err := os.Chmod(name, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: c.endpoint, Path: "/d", Options: []byte(c.options)})
		if !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("mode %o, %s %s: want %v, got %v", c.mode, c.endpoint, c.options, c.want, err)
		}
	}
}

// TestDowngrade checks that a redirect from https to http is refused, and that an
// untrusted certificate is reported.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	plain := serve(t, status(200))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain, http.StatusFound) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the log would report the rejected certificate
	s.StartTLS()
	t.Cleanup(s.Close)
	_, _, err := open(t, s.URL, "").Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || again || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: want a final ErrIO, got %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, httpdriver.PEM(s.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = open(t, s.URL, fmt.Sprintf(`{"ca_file": %q}`, ca)).Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if ncerr.KindOf(err) != ncerr.ErrPermission || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("a redirect to http: want ErrPermission, got %v", err)
	}
}

// TestProxy checks that requests go to a configured proxy.
func TestProxy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, r.URL.Host)
	})
	m := open(t, "http://data.invalid", fmt.Sprintf(`{"proxy": %q}`, proxy))
	got, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	if err != nil || string(got) != "data.invalid" || asked.Load() != 1 {
		t.Errorf("want the host data.invalid in one request to the proxy, got %q, %v, %d requests", got, err, asked.Load())
	}
}

// TestCancel checks that canceling the context ends a Get while the server stalls.
func TestCancel(t *testing.T) {
	t.Parallel()
	m := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "0123")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), "")
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := m.Get(ctx, "k", &driver.GetOptions{}, func(n int64) ([]byte, error) {
		time.AfterFunc(20*time.Millisecond, cancel)
		return make([]byte, n), nil
	})
	if err != context.Canceled { //nolint:errorlint // the contract is to return the identical error
		t.Errorf("want context.Canceled, got %v", err)
	}
}

// TestReadOnly checks that all changes, writable modes and invalid URLs are refused.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	m := open(t, "http://data.invalid", "")
	_, err := m.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{})
	if ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("put: want ErrReadOnly, got %v", err)
	}
	if err := m.Delete(t.Context(), "k", &driver.DeleteOptions{}); ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("delete: want ErrReadOnly, got %v", err)
	}
	for _, mode := range []driver.Mode{driver.Update, driver.Create, driver.CreateExclusive} {
		_, err := httpdriver.New().Open(t.Context(), driver.OpenSpec{Endpoint: "http://data.invalid", Mode: mode})
		if ncerr.KindOf(err) != ncerr.ErrReadOnly {
			t.Errorf("open in mode %d: want ErrReadOnly, got %v", mode, err)
		}
	}
	for _, spec := range []driver.OpenSpec{{Endpoint: "ftp://x"}, {Endpoint: "http://u:hush@x"}, {Endpoint: "http://x", Path: "/%zz"}, {Endpoint: "x"}} {
		if _, err := httpdriver.New().Open(t.Context(), spec); ncerr.KindOf(err) != ncerr.ErrBadURL || strings.Contains(err.Error(), "hush") {
			t.Errorf("open %+v: want ErrBadURL without the password, got %v", spec, err)
		}
	}
}
