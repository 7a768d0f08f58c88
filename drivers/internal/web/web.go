// Package web is the HTTP transport of the storage drivers that speak HTTP. It implements
// connections, proxies, certificates and timeouts. The timeouts are implemented here
// because only the process that owns the connection can observe when bytes arrive.
//
// drivers/http and drivers/s3 use the package; it is built on net/http.
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

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Options configures a [Transport]. Zero fields select the defaults.
type Options struct {
	// Connect limits the time for a TCP connection, and separately for its TLS
	// handshake; 0 means 10 s.
	Connect time.Duration
	// FirstByte limits the time from the end of the request to the header of the
	// response; 0 means 60 s. The time that a proxy needs to open a connection has the
	// same limit.
	FirstByte time.Duration
	// Stall limits the time without a byte of a body, in either direction; 0 means 30
	// s.
	Stall time.Duration
	// Proxy is the URL of a proxy for all requests; if empty, HTTP_PROXY, HTTPS_PROXY
	// and NO_PROXY of the environment apply.
	Proxy string
	// CAFile is a file of certificates to trust instead of the system's; if empty, the
	// system's apply (SSL_CERT_FILE and SSL_CERT_DIR on Unix).
	CAFile string
	// RootCAs, if not nil, holds the certificates to trust. CAFile takes precedence.
	RootCAs *x509.CertPool
	// Connections, if greater than 0, limits the connections to one host, including
	// idle ones, and disables HTTP/2, so that each request has a separate connection.
	// This is faster than a shared connection for many large concurrent bodies.
	Connections int
	// Reach limits the addresses to which the Transport connects. A proxy is not limited. If
	// one is used, the host names of URLs are checked instead of addresses.
	Reach Reach
	// Dial, if not nil, opens the connections. Tests use it to reach servers without a
	// network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ErrTimeout is wrapped by the error of a request that exceeded one of the time limits
// in Options. It is not a context error.
var ErrTimeout = errors.New("timed out")

// Transport is an http.RoundTripper with timeouts that restart whenever bytes move. It
// is safe for concurrent use.
type Transport struct {
	o     Options
	base  *http.Transport
	first atomic.Int32 // scope of the first address reached, or notReached
}

// New returns a Transport. It fails if Proxy or CAFile is invalid; the error does not
// contain the password of a proxy.
func New(o Options) (*Transport, error) {
	o.Connect = orElse(o.Connect, 10*time.Second)
	o.FirstByte = orElse(o.FirstByte, time.Minute)
	o.Stall = orElse(o.Stall, 30*time.Second)
	dialer := &net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second, ControlContext: mayConnect}
	t := &Transport{o: o, base: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: dialer.DialContext,
		// Compression would change the bytes of a response, which are stored and
		// compared.
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
	t.first.Store(notReached)
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
			return nil, errors.New("the proxy is not a valid URL")
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
			return nil, fmt.Errorf("%q contains no certificate", o.CAFile)
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

// RoundTrip implements http.RoundTripper. RoundTrip and the Read method of the body
// return an error that wraps [ErrTimeout] after a timeout. RoundTrip fails with
// ncerr.ErrPermission if the address is more local than Options.Reach allows, or if a
// redirect leads to a more local address than that of the redirecting server.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sends := req.Body != nil && req.Body != http.NoBody
	ctx, err := t.guard(req)
	if err != nil {
		return nil, err
	}
	w := newWatch(ctx, t, sends)
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
	reached := scopeOfHost(req.URL.Hostname())
	if a, ok := w.remote.(*net.TCPAddr); ok && ctx != req.Context() {
		reached = scopeOf(a.AddrPort().Addr())
	}
	resp.Request = req.WithContext(context.WithValue(req.Context(), scopeKey{}, reached))
	return resp, nil
}

// watch cancels a request that makes no progress.
type watch struct {
	ctx    context.Context //nolint:containedctx // the context has the lifetime of the request
	cancel context.CancelCauseFunc
	o      Options
	timer  *time.Timer
	phase  atomic.Pointer[phase]
	remote net.Addr // address of the connection that the request uses
}

// phase describes a phase of a request and its time limit.
type phase struct {
	what string
	long time.Duration
}

// newWatch returns a watch that starts when the request gets a connection. Before that,
// the request waits for other requests, which are watched themselves, or for a new
// connection, which has its own time limit. Waiting for the response of a proxy to
// CONNECT has no separate limit, so a timer starts as soon as the TCP connection is open.
func newWatch(ctx context.Context, t *Transport, sends bool) *watch {
	o := t.o
	w := &watch{o: o}
	ctx, w.cancel = context.WithCancelCause(ctx)
	first := w.sentAll
	if sends {
		first = w.sending
	}
	w.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			// The request may already use another connection.
			if p := (&phase{"waiting for a connection", o.FirstByte + o.Connect}); err == nil && w.phase.CompareAndSwap(nil, p) {
				w.timer.Reset(p.long)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			w.remote = info.Conn.RemoteAddr()
			if err := t.reached(ctx, w.remote); err != nil {
				w.cancel(err)
			}
			first()
		},
	})
	w.timer = time.AfterFunc(math.MaxInt64, func() {
		p := w.phase.Load()
		w.cancel(fmt.Errorf("%w after %v of %s", ErrTimeout, p.long, p.what))
	})
	return w
}

// enter starts the next phase.
func (w *watch) enter(p *phase) {
	w.phase.Store(p)
	w.timer.Reset(p.long)
}

func (w *watch) sending() { w.enter(&phase{"waiting to send more data", w.o.Stall + w.o.Connect}) }
func (w *watch) sentAll() { w.enter(&phase{"waiting for the response", w.o.FirstByte}) }
func (w *watch) arrived() { w.enter(&phase{"waiting for more data", w.o.Stall}) }

// progress restarts the timer of the phase.
func (w *watch) progress() { w.timer.Reset(w.phase.Load().long) }

// cause returns the timeout or the refusal that caused err, and err otherwise.
func (w *watch) cause(err error) error {
	if c := context.Cause(w.ctx); errors.Is(c, ErrTimeout) || ncerr.KindOf(c) == ncerr.ErrPermission {
		return c
	}
	return err
}

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// sent is the body of a request. It reports progress to w.
type sent struct {
	io.ReadCloser
	w *watch
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.w.sentAll()
	} else {
		s.w.progress()
	}
	return n, err
}

// received is the body of a response. It reports progress to w.
type received struct {
	io.ReadCloser
	w *watch
}

func (r *received) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.w.progress()
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
