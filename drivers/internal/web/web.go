// Package web is the HTTP transport of the storage drivers that speak HTTP:
// connections, proxies, certificates, and the time-outs of a request, of which
// there is one implementation because only the process that holds the
// connection sees bytes arrive.
//
// Above are drivers/http and drivers/s3; below is net/http.
package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

// Options are the options of [New]; zero members take the defaults.
type Options struct {
	// Connect is the longest time that a TCP connection, and then its TLS
	// handshake, may take; 0 is 10 s.
	Connect time.Duration
	// FirstByte is the longest time from the end of the request, once it has a
	// connection, to the head of the answer; 0 is 60 s. A proxy has as long to
	// let it through.
	FirstByte time.Duration
	// Stall is the longest time in which no byte of a body moves, in either
	// direction; 0 is 30 s.
	Stall time.Duration
	// Proxy is the URL of a proxy for all requests; empty takes HTTP_PROXY,
	// HTTPS_PROXY and NO_PROXY of the environment.
	Proxy string
	// CAFile is a file of certificates to trust instead of the system's; empty
	// means the system's (SSL_CERT_FILE and SSL_CERT_DIR on Unix).
	CAFile string
	// RootCAs, when not nil, are the certificates to trust; CAFile comes first.
	RootCAs *x509.CertPool
	// Connections, when > 0, bounds the connections to one host, idle ones
	// too, and keeps to HTTP/1.1, where each request has one of its own: for
	// many large bodies at once that is faster than sharing one.
	Connections int
	// Dial, when not nil, opens the connections: tests have servers that are
	// not on a network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ErrTimeout is the cause of a request that was given up because of one of
// the Options' times. It is no context error.
var ErrTimeout = errors.New("timed out")

// Transport is an http.RoundTripper with time-outs that restart whenever bytes
// move. It is safe for concurrent use.
type Transport struct {
	o    Options
	base *http.Transport
}

// New makes a Transport. The error is about Proxy or CAFile, and names no
// password of a proxy.
func New(o Options) (*Transport, error) {
	o.Connect = orElse(o.Connect, 10*time.Second)
	o.FirstByte = orElse(o.FirstByte, time.Minute)
	o.Stall = orElse(o.Stall, 30*time.Second)
	dialer := &net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second, ControlContext: mayConnect}
	t := &Transport{o: o, base: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: dialer.DialContext,
		// An answer is stored, compared and cut by its bytes: nobody may pack them.
		DisableCompression:     true,
		TLSHandshakeTimeout:    o.Connect,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         32 << 10,
		WriteBufferSize:        32 << 10,
		ForceAttemptHTTP2:      true,
		ExpectContinueTimeout:  time.Second,
	}}
	if o.Dial != nil {
		t.base.DialContext = o.Dial
	}
	if o.RootCAs != nil {
		t.base.TLSClientConfig = &tls.Config{RootCAs: o.RootCAs}
	}
	if n := o.Connections; n > 0 {
		t.base.ForceAttemptHTTP2 = false
		t.base.Protocols = new(http.Protocols)
		t.base.Protocols.SetHTTP1(true)
		t.base.MaxIdleConns, t.base.MaxIdleConnsPerHost, t.base.MaxConnsPerHost = 0, n, n
	}
	if o.Proxy != "" {
		proxy, err := url.Parse(o.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, errors.New("the proxy is not a URL")
		}
		t.base.Proxy = http.ProxyURL(proxy)
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", o.CAFile)
		}
		t.base.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return t, nil
}

func orElse(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper. A time-out is an error that wraps
// [ErrTimeout], here and from the body's Read. A redirect to an address of this
// machine or its network, from a server that has no such address, is an
// ncerr.ErrPermission.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sends := req.Body != nil && req.Body != http.NoBody
	ctx, err := t.guard(req)
	if err != nil {
		return nil, err
	}
	w := newWatch(ctx, t.o, sends)
	out := req.Clone(w.ctx)
	if sends {
		out.Body = &sent{req.Body, w}
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		err = w.cause(err)
		w.end()
		return nil, err
	}
	w.arrived()
	resp.Body = &received{resp.Body, w}
	met := nearOfHost(req.URL.Hostname())
	if a, ok := w.remote.(*net.TCPAddr); ok && ctx != req.Context() {
		met = nearOf(a.AddrPort().Addr())
	}
	resp.Request = req.WithContext(context.WithValue(req.Context(), nearKey{}, met))
	return resp, nil
}

// watch ends a request that does not get on.
type watch struct {
	ctx    context.Context //nolint:containedctx // lives as long as the request
	cancel context.CancelCauseFunc
	o      Options
	timer  *time.Timer
	phase  atomic.Pointer[phase]
	remote net.Addr // of the connection that the request got
}

// phase is what is waited for, and how long.
type phase struct {
	what string
	long time.Duration
}

// newWatch begins to watch when the request has a connection: until then it
// waits for others to end, which are watched, or for a new connection, which
// has a time of its own. That of a proxy has none: there the wait for what the
// proxy says begins as soon as somebody has taken the connection.
func newWatch(ctx context.Context, o Options, sends bool) *watch {
	w := &watch{o: o}
	ctx, w.cancel = context.WithCancelCause(ctx)
	first := w.sentAll
	if sends {
		first = w.sending
	}
	w.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			// The request may have got the connection of another meanwhile.
			if p := (&phase{"opening a connection", o.FirstByte + o.Connect}); err == nil && w.phase.CompareAndSwap(nil, p) {
				w.timer.Reset(p.long)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			w.remote = info.Conn.RemoteAddr()
			first()
		},
	})
	w.timer = time.AfterFunc(math.MaxInt64, func() {
		p := w.phase.Load()
		w.cancel(fmt.Errorf("%w after %v of %s", ErrTimeout, p.long, p.what))
	})
	return w
}

// enter begins another phase.
func (w *watch) enter(p *phase) {
	w.phase.Store(p)
	w.timer.Reset(p.long)
}

func (w *watch) sending() { w.enter(&phase{"sending without progress", w.o.Stall + w.o.Connect}) }
func (w *watch) sentAll() { w.enter(&phase{"waiting for the answer", w.o.FirstByte}) }
func (w *watch) arrived() { w.enter(&phase{"receiving nothing", w.o.Stall}) }

// moved begins the phase again.
func (w *watch) moved() { w.timer.Reset(w.phase.Load().long) }

// cause gives the time-out in place of the error that it led to.
func (w *watch) cause(err error) error {
	if c := context.Cause(w.ctx); errors.Is(c, ErrTimeout) {
		return c
	}
	return err
}

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// sent is the body of a request.
type sent struct {
	io.ReadCloser
	w *watch
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.w.sentAll()
	} else {
		s.w.moved()
	}
	return n, err
}

// received is the body of an answer.
type received struct {
	io.ReadCloser
	w *watch
}

func (r *received) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.w.moved()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.w.cause(err)
	}
	return n, err
}

func (r *received) Close() error {
	defer r.w.end()
	return r.ReadCloser.Close()
}
