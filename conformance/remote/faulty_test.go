package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// A fault disturbs the exchange of a request and its response. The function do answers the
// request; its argument send forwards the request and returns the complete response of the
// server. A lie is a fault that the client cannot detect from the response, so the operation
// may fail; the proxy counts lies.
type fault struct {
	name    string
	applies func(r *http.Request) bool
	do      func(w http.ResponseWriter, r *http.Request, send func() answer)
	lie     bool
}

// answer is a response of a server.
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
	_, _ = w.Write(a.body) // the client may have disconnected
}

func always(*http.Request) bool    { return true }
func gets(r *http.Request) bool    { return r.Method == http.MethodGet }
func reads(r *http.Request) bool   { return gets(r) && !listing(r) }
func wholes(r *http.Request) bool  { return reads(r) && r.Header.Get("Range") == "" }
func ranged(r *http.Request) bool  { return reads(r) && r.Header.Get("Range") != "" }
func listing(r *http.Request) bool { return r.URL.Query().Has("list-type") }
func changes(r *http.Request) bool { return !gets(r) && r.Method != http.MethodHead }

// refuse returns a fault that responds with a status without forwarding the request.
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

// faulty is a proxy that injects faults into some of the exchanges with a server.
type faulty struct {
	target   *url.URL
	root     string // path of the store: its bucket and key
	fraction float64
	list     []fault
	client   *http.Client

	requests atomic.Int64
	turns    sync.Map // *sync.Mutex by path: one request at a time per path
	mu       sync.Mutex
	rng      *rand.Rand
	counts   map[string]int
	lies     map[string]int
}

// newFaulty starts a proxy for the server at target. The proxy injects a fault into the
// given fraction of the exchanges, chosen from the applicable faults in list. The store
// is below the path root, which ends in a slash.
func newFaulty(t *testing.T, target, root string, fraction float64, list []fault) (*faulty, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{target: u, root: root, fraction: fraction, list: list, rng: rand.New(rand.NewPCG(testseed.New(t), 1<<32)), counts: map[string]int{}, lies: map[string]int{}, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s := httptest.NewUnstartedServer(f)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) }
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
	if x, ok := f.draw(r); ok {
		x.do(w, r, send)
	} else {
		send().write(w)
	}
}

// draw chooses the fault for r, if any.
func (f *faulty) draw(r *http.Request) (x fault, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng.Float64() >= f.fraction {
		return fault{}, false
	}
	var fit []fault
	for _, x := range f.list {
		if x.applies(r) {
			fit = append(fit, x)
		}
	}
	x = fit[f.rng.IntN(len(fit))]
	f.counts[x.name]++
	if x.lie {
		f.lies[f.subject(r)]++
	}
	return x, true
}

// subject returns the key or prefix of a request.
func (f *faulty) subject(r *http.Request) string {
	if listing(r) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(f.root, "/"), "/")
		return strings.TrimPrefix("/"+bucket+"/"+r.URL.Query().Get("prefix"), f.root)
	}
	return strings.TrimPrefix(r.URL.Path, f.root)
}

// lied returns the number of lies about a key or prefix.
func (f *faulty) lied(subject string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lies[subject]
}

// connection is the context key for the connection of a request.
type connection struct{}

// gone reports whether the client has closed the connection of a request. The context
// is not sufficient, because it is canceled only when the server notices the
// disconnection.
func gone(ctx context.Context) bool {
	raw, err := ctx.Value(connection{}).(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && !errors.Is(err, syscall.EAGAIN)
	})
	return closed || err != nil || ctx.Err() != nil
}

// send forwards a request with its original Host header, which is signed. It completes
// a change once it has started, and delays concurrent requests to the same path: a
// write whose client has disconnected must not take effect after its repetition.
func (f *faulty) send(r *http.Request, body []byte) answer {
	ctx := r.Context()
	if !listing(r) {
		mu, _ := f.turns.LoadOrStore(r.URL.Path, new(sync.Mutex))
		mu.(*sync.Mutex).Lock()
		defer mu.(*sync.Mutex).Unlock()
		if gone(ctx) {
			reset()
		}
	}
	if changes(r) {
		ctx = context.WithoutCancel(ctx)
	}
	u := *r.URL
	u.Scheme, u.Host = f.target.Scheme, f.target.Host
	out, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
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
	defer resp.Body.Close() // the body is only read
	a := answer{status: resp.StatusCode, header: resp.Header.Clone()}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		reset()
	}
	if r.Method == http.MethodHead && resp.ContentLength >= 0 {
		a.header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	return a
}

// occurrences returns the number of times that a fault occurred.
func (f *faulty) occurrences(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// report returns the number of times that each fault occurred.
func (f *faulty) report() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests", f.requests.Load())
	for _, x := range f.list {
		fmt.Fprintf(&b, ", %s %d", x.name, f.counts[x.name])
	}
	return b.String()
}

// waitFor waits until count returns at most base, up to a minute, and returns the last
// count.
func waitFor(base int, count func() int) int {
	n := count()
	for i := 0; i < 1200 && n > base; i++ { // at most a minute
		time.Sleep(50 * time.Millisecond)
		n = count()
	}
	return n
}
