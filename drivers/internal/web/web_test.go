package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// dripping is a body that comes slowly, and stops for ever after n bytes.
type dripping struct {
	n    int
	stop <-chan struct{}
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.n == 0 {
		<-d.stop
		return 0, io.EOF
	}
	time.Sleep(5 * time.Millisecond)
	d.n--
	p[0] = 'x'
	return 1, nil
}

// TestSending shows that a request whose body gets on is left alone, and one
// that does not is given up with an error that is no context error.
func TestSending(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(s.Close)
	tr, err := web.New(web.Options{Connect: 50 * time.Millisecond, Stall: 200 * time.Millisecond, FirstByte: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	stop := make(chan struct{})
	close(stop)
	send := func(body io.Reader) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if err := send(&dripping{n: 100, stop: stop}); err != nil {
		t.Errorf("a slow body: %v", err)
	}
	never := make(chan struct{})
	time.AfterFunc(5*time.Second, func() { close(never) })
	err = send(&dripping{n: 3, stop: never})
	if !errors.Is(err, web.ErrTimeout) || errors.Is(err, context.Canceled) {
		t.Errorf("a body that stopped: %v", err)
	}
	mine := web.Failed(t.Context(), err)
	if again, _ := ncerr.Retry(mine); ncerr.KindOf(mine) != ncerr.ErrIO || !again {
		t.Errorf("got %v", mine)
	}
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

// TestFailed shows that the text of an error has no URL, and that the caller's
// own context error comes first.
func TestFailed(t *testing.T) {
	t.Parallel()
	_, err := http.Get("http://127.0.0.1:1/?sig=hush") //nolint:bodyclose,noctx // it fails
	if err == nil || strings.Contains(web.Failed(t.Context(), err).Error(), "hush") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := web.Failed(ctx, err); got != context.Canceled { //nolint:errorlint // it must be bare
		t.Errorf("got %v", got)
	}
	known := ncerr.Errorf(ncerr.ErrLimit, "", "", "too much")
	if got := web.Failed(t.Context(), fmt.Errorf("deeper: %w", known)); ncerr.KindOf(got) != ncerr.ErrLimit {
		t.Errorf("got %v", got)
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

// TestWaitingForAConnection shows that a request which waits until another one
// needs its connection no more is not given up for it.
func TestWaitingForAConnection(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		for range 100 { // a second in all, and each byte at once
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}))
	t.Cleanup(s.Close)
	tr, err := web.New(web.Options{Connections: 1, Connect: 100 * time.Millisecond, FirstByte: 300 * time.Millisecond, Stall: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	var all sync.WaitGroup
	for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPut} {
		all.Go(func() {
			var body io.Reader
			if method == http.MethodPut {
				body = strings.NewReader("content")
			}
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL, body)
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
}
