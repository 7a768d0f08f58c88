package s3server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Gate is a proxy for a server. It counts the requests that change something, and calls
// a function before it forwards one of them.
type Gate struct {
	// Endpoint replaces the endpoint of the server.
	Endpoint string

	work sync.RWMutex // held for reading during requests

	mu   sync.Mutex
	seen int // number of requests that change something
	at   int // number of the request before which act is called
	act  func()
}

// NewGate starts a gate in front of the server. It stops when the test ends.
func (s *Server) NewGate(t testing.TB) *Gate {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // ignore errors, because the program has ended
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
	}
	g := &Gate{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.work.RLock()
		defer g.work.RUnlock()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			g.mu.Lock()
			g.seen++
			if g.seen == g.at {
				g.act()
			}
			g.mu.Unlock()
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) // complete every received request, even if the program ends
	}))
	t.Cleanup(front.Close)
	g.Endpoint = front.URL
	return g
}

// Arm returns the count so far and resets it to 0. The gate then calls act before it
// forwards the n-th request that changes something; if n is 0, it never calls act.
// Requests that arrive during the call wait until act returns.
func (g *Gate) Arm(n int, act func()) (seen int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen = g.seen
	g.seen, g.at, g.act = 0, n, act
	return seen
}

// Wait waits until the server has responded to all requests. The programs that send
// requests must have ended.
func (g *Gate) Wait() {
	g.work.Lock()
	defer g.work.Unlock()
}
