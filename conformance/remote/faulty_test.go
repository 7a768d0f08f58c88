package remote_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fault does something wrong to an exchange: send sends the request on and
// gives the server's whole answer.
type fault struct {
	name    string
	applies func(r *http.Request) bool
	do      func(w http.ResponseWriter, r *http.Request, send func() answer)
}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // who asked may have gone
}

func always(*http.Request) bool    { return true }
func reads(r *http.Request) bool   { return r.Method == http.MethodGet && !listing(r) }
func listing(r *http.Request) bool { return r.URL.Query().Has("list-type") }
func changes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodDelete
}
func ranged(r *http.Request) bool { return reads(r) && r.Header.Get("Range") != "" }

// refuse answers with a status before the server hears of the request.
func refuse(status int, headers ...string) func(http.ResponseWriter, *http.Request, func() answer) {
	return func(w http.ResponseWriter, _ *http.Request, _ func() answer) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

// reset breaks the connection.
func reset() { panic(http.ErrAbortHandler) }

// faults are the ways in which answers fail for a while. Signed headers are left
// alone.
func faults() []fault {
	return []fault{
		{"500", always, refuse(500)},
		{"502", always, refuse(502)},
		{"503 slow down", always, refuse(503, "Retry-After", "0")},
		{"429", always, refuse(429, "Retry-After", "0")},
		{"reset before", always, func(http.ResponseWriter, *http.Request, func() answer) { reset() }},
		{"answer lost", changes, func(_ http.ResponseWriter, _ *http.Request, send func() answer) { send(); reset() }},
		{"error after the write", changes, func(w http.ResponseWriter, _ *http.Request, send func() answer) { send(); w.WriteHeader(500) }},
		{"no answer", always, func(_ http.ResponseWriter, r *http.Request, _ func() answer) { <-r.Context().Done() }},
		{"cut body", reads, func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
			a.body = a.body[:len(a.body)/2]
			a.write(w)
			w.(http.Flusher).Flush()
			reset()
		}},
		{"stalled body", reads, func(w http.ResponseWriter, r *http.Request, send func() answer) {
			a := send()
			a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
			if len(a.body) == 0 {
				a.write(w)
				return
			}
			a.body = a.body[:len(a.body)-1]
			a.write(w)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{"wrong Content-Range", ranged, func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			var first, last, size int64
			if n, _ := fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); n == 3 {
				a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, size+1))
			}
			a.write(w)
		}},
		{"shorter range", ranged, func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			var first, last, size int64
			if n, _ := fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); n == 3 && len(a.body) > 1 {
				a.body = a.body[:len(a.body)-1]
				a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
				a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last-1, size))
			}
			a.write(w)
		}},
	}
}

// wholeForRange is one more for servers whose requests are not signed.
func wholeForRange() fault {
	return fault{"whole for a range", ranged, func(w http.ResponseWriter, r *http.Request, send func() answer) {
		r.Header.Del("Range")
		send().write(w)
	}}
}

// faulty is a proxy in front of a server that spoils a part of the exchanges.
type faulty struct {
	target *url.URL
	part   float64
	list   []fault
	client *http.Client

	requests atomic.Int64
	mu       sync.Mutex
	struck   map[string]int
}

// newFaulty starts a proxy in front of the server at target that spoils part
// (0 to 1) of the exchanges, each with one of the faults that apply.
func newFaulty(t *testing.T, target string, part float64, list []fault) (*faulty, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{target: u, part: part, list: list, struck: map[string]int{}, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s := httptest.NewUnstartedServer(f)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		f.client.CloseIdleConnections()
	})
	return f, s.URL
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		reset()
	}
	send := func() answer { return f.send(r, body) }
	if rand.Float64() >= f.part {
		send().write(w)
		return
	}
	var fit []fault
	for _, x := range f.list {
		if x.applies(r) {
			fit = append(fit, x)
		}
	}
	x := fit[rand.IntN(len(fit))]
	f.mu.Lock()
	f.struck[x.name]++
	f.mu.Unlock()
	x.do(w, r, send)
}

// send sends a request on, with the Host that it came with, as that is signed.
func (f *faulty) send(r *http.Request, body []byte) answer {
	u := *r.URL
	u.Scheme, u.Host = f.target.Scheme, f.target.Host
	out, err := http.NewRequestWithContext(r.Context(), r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		reset()
	}
	out.URL = &u
	out.Host, out.Header = r.Host, r.Header.Clone()
	out.ContentLength = int64(len(body))
	resp, err := f.client.Do(out)
	if err != nil {
		reset()
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	a := answer{status: resp.StatusCode, header: resp.Header.Clone()}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		reset()
	}
	if r.Method == http.MethodHead && resp.ContentLength >= 0 {
		a.header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	return a
}

// report gives how often each fault struck.
func (f *faulty) report() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests", f.requests.Load())
	for _, x := range f.list {
		fmt.Fprintf(&b, ", %s %d", x.name, f.struck[x.name])
	}
	return b.String()
}

// settle waits until a count is back at base, for as long as that may take.
func settle(base int, count func() int) int {
	n := count()
	for i := 0; i < 100 && n > base; i++ {
		time.Sleep(50 * time.Millisecond)
		n = count()
	}
	return n
}
