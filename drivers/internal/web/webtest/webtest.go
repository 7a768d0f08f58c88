// Package webtest serves HTTP over connections in memory. In a bubble of
// testing/synctest, where nothing may wait for a network, time-outs of a client
// are then exact however busy the machine is.
package webtest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// URL is the address of a server of [Serve]. No proxy of the environment is
// used for it.
const URL = "http://127.0.0.1:1"

// Serve answers requests with h until the test ends. The dial function that it
// returns connects to it, whatever the address.
func Serve(t testing.TB, h http.Handler) func(ctx context.Context, network, address string) (net.Conn, error) {
	t.Helper()
	l := &listener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	var serving sync.WaitGroup
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // it serves this test only
		serving.Add(1)
		defer serving.Done()
		h.ServeHTTP(w, r)
	})}
	serving.Go(func() { _ = s.Serve(l) }) // it ends with ErrServerClosed
	t.Cleanup(func() {
		_ = s.Close()
		serving.Wait()
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.dialed <- far:
			return near, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// listener accepts what was dialed.
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
