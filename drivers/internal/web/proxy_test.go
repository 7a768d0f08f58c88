package web_test

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// TestSilentProxy checks that a request times out if a proxy accepts the connection and
// then sends nothing.
func TestSilentProxy(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"socks5", "http", "https"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		tr, err := web.New(web.Options{
			Proxy: scheme + "://" + l.Addr().String(), Connect: 300 * time.Millisecond, FirstByte: 300 * time.Millisecond, Stall: 300 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tr.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			resp, err := tr.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || scheme != "https" && !errors.Is(err, web.ErrTimeout) {
				t.Errorf("%s: want a timeout, got %v", scheme, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: the request does not end", scheme)
		}
	}
}
