package s3server

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
)

// Proxy starts an HTTP proxy that forwards requests for all hosts to the server, and
// keeps the Host header. With HTTP_PROXY set to the URL of the proxy,
// http://BUCKET.s3.test reaches the bucket in virtual-host style. The caller closes the
// proxy.
func (s *Server) Proxy() *httptest.Server {
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		panic(err) // Run builds a valid Endpoint
	}
	return httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host
	}})
}
