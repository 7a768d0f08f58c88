// Package webtest serves HTTP over connections in memory. Inside a testing/synctest
// bubble, which cannot wait for a network, the timeouts of a client are thus exact even
// on a busy machine.
package webtest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// URL is the address of a server started by [Serve]. Proxies of the environment do not
// apply to it.
const URL = "http://127.0.0.1:1"

// Serve handles requests with h until the test ends. It returns a dial function that
// connects to the server, whatever the address.
func Serve(t testing.TB, h http.Handler) func(ctx context.Context, network, address string) (net.Conn, error) {
	t.Helper()
	l := &listener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	var serving sync.WaitGroup
	// Only this test uses the server, so it needs no timeouts.
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		h.ServeHTTP(w, r)
	})}
	serving.Go(func() { _ = s.Serve(l) }) // Serve returns ErrServerClosed
	t.Cleanup(func() {
		_ = s.Close()
		serving.Wait()
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case l.dialed <- server:
			return client, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// listener accepts the connections that the dial function opens.
type listener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
