package s3_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// front is a proxy for hosts that do not resolve. It forwards each bucket of a virtual
// host to its server.
type front struct {
	mu      sync.Mutex
	servers map[string]*url.URL // the server of each bucket
}

func newFront() *front { return &front{servers: make(map[string]*url.URL)} }

// add routes requests for the host BUCKET.DOMAIN to endpoint.
func (f *front) add(bucket, endpoint string) {
	u, err := url.Parse(endpoint)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[bucket] = u
}

func (f *front) start() *httptest.Server {
	return httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		bucket, _, _ := strings.Cut(r.In.Host, ".")
		f.mu.Lock()
		u := f.servers[bucket]
		f.mu.Unlock()
		if u != nil {
			r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host
		}
		r.Out.Host = r.In.Host
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
}

func cut(line string) (name, value string, ok bool) { return strings.Cut(line, "=") }
