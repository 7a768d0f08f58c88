package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
	"github.com/seed-695719ce/nczarr/drivers/internal/web/webtest"
)

// dripping is a body of n bytes with a pause before each. After them, Read blocks until
// stop is closed.
type dripping struct {
	n     int
	pause time.Duration
	stop  <-chan struct{}
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.n == 0 {
		<-d.stop
		return 0, io.EOF
	}
	time.Sleep(d.pause)
	d.n--
	p[0] = 'x'
	return 1, nil
}

// TestStalledBody checks that a request with a slow body succeeds, and that a request with
// a stalled body fails with an error that is not a context error.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial := webtest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		tr, err := web.New(web.Options{Connect: 10 * time.Second, Stall: 20 * time.Second, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.CloseIdleConnections()
		send := func(body io.Reader) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, webtest.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}
		stop := make(chan struct{})
		close(stop)
		// The body takes 60 s, twice the 30 s (Connect plus Stall) allowed without progress.
		if err := send(&dripping{n: 60, pause: time.Second, stop: stop}); err != nil {
			t.Errorf("a slow body: %v", err)
		}
		never := make(chan struct{})
		time.AfterFunc(200*time.Second, func() { close(never) }) // the transport may wait for a pending read of the body
		stopped := send(&dripping{n: 3, pause: time.Second, stop: never})
		if !errors.Is(stopped, web.ErrTimeout) || errors.Is(stopped, context.Canceled) {
			t.Errorf("a body that stopped: want ErrTimeout, got %v", stopped)
		}
		mine := web.RequestError(t.Context(), stopped)
		if again, _ := ncerr.Retry(mine); ncerr.KindOf(mine) != ncerr.ErrIO || !again {
			t.Errorf("want a retryable ErrIO, got %v", mine)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-3": 0, "soon": 0, "99999999": 24 * time.Hour, "999999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := web.RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: want %v, got %v", text, want, got)
		}
	}
}

// TestRequestError checks that the message of an error does not contain the URL, and
// that the context error of the caller takes precedence.
func TestRequestError(t *testing.T) {
	t.Parallel()
	_, err := http.Get("http://127.0.0.1:1/?sig=hush") //nolint:bodyclose // the request fails, so it has no response
	if err == nil || strings.Contains(web.RequestError(t.Context(), err).Error(), "hush") {
		t.Errorf("want an error without the query, got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := web.RequestError(ctx, err); got != context.Canceled { //nolint:errorlint // the contract is to return the identical error
		t.Errorf("want context.Canceled, got %v", got)
	}
	known := ncerr.Errorf(ncerr.ErrLimit, "", "", "too much")
	if got := web.RequestError(t.Context(), fmt.Errorf("deeper: %w", known)); ncerr.KindOf(got) != ncerr.ErrLimit {
		t.Errorf("want ErrLimit, got %v", got)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []web.Options{{Proxy: "::"}, {Proxy: "no-url"}, {CAFile: "/no/such/file"}} {
		if _, err := web.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestWaitingForAConnection sends three requests over one connection. Each response
// takes twice as long as the stall timeout, but its bytes arrive steadily. A request
// that waits for the connection must not time out.
func TestWaitingForAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial := webtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "60")
			for range 60 {
				_, _ = io.WriteString(w, "x") // the client may have disconnected
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}))
		tr, err := web.New(web.Options{Connections: 1, Connect: 10 * time.Second, FirstByte: 30 * time.Second, Stall: 30 * time.Second, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.CloseIdleConnections()
		var all sync.WaitGroup
		for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPut} {
			all.Go(func() {
				var body io.Reader
				if method == http.MethodPut {
					body = strings.NewReader("content")
				}
				req, err := http.NewRequestWithContext(t.Context(), method, webtest.URL, body)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					err = errors.Join(err, resp.Body.Close())
				}
				if err != nil {
					t.Errorf("%s: %v", method, err)
				}
			})
		}
		all.Wait()
	})
}
