package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// patiently tries with longer and longer times until all goes well, and gives
// the error of the last try: what is wrong fails with any times, a machine that
// is busy for a moment with short ones only.
func patiently(try func(unit time.Duration) error) (err error) {
	for unit := 2 * time.Millisecond; unit < 600*time.Millisecond; unit *= 4 {
		if err = try(unit); err == nil {
			return nil
		}
	}
	return err
}

// dripping is a body of n bytes, with a pause before each, that says nothing
// after them until it is stopped.
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

// TestSending shows that a request whose body gets on is left alone, and one
// that does not is given up with an error that is no context error.
func TestSending(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(s.Close)
	send := func(o web.Options, body io.Reader) error {
		tr, err := web.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.CloseIdleConnections()
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
	stop := make(chan struct{})
	close(stop)
	err := patiently(func(unit time.Duration) error { // twice as long in all as it may stand still
		return send(web.Options{Connect: 10 * unit, Stall: 20 * unit}, &dripping{n: 60, pause: unit, stop: stop})
	})
	if err != nil {
		t.Errorf("a slow body: %v", err)
	}
	var stopped error
	err = patiently(func(unit time.Duration) error { // also until a connection comes in time
		never := make(chan struct{})
		time.AfterFunc(200*unit, func() { close(never) })
		stopped = send(web.Options{Connect: 10 * unit, Stall: 20 * unit}, &dripping{n: 3, pause: unit, stop: never})
		if !errors.Is(stopped, web.ErrTimeout) || errors.Is(stopped, context.Canceled) {
			return fmt.Errorf("got %v", stopped) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if err != nil {
		t.Errorf("a body that stopped: %v", err)
	}
	mine := web.Failed(t.Context(), stopped)
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
	if err := patiently(func(unit time.Duration) error { return takeTurns(t, unit) }); err != nil {
		t.Error(err)
	}
}

// takeTurns sends three requests over one connection. Each of their answers
// takes twice as long as a server may be silent, but each byte comes at once.
func takeTurns(t *testing.T, unit time.Duration) error {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "60")
		for range 60 {
			_, _ = io.WriteString(w, "x") // who asked may have gone
			_ = http.NewResponseController(w).Flush()
			time.Sleep(unit)
		}
	}))
	defer s.Close()
	tr, err := web.New(web.Options{Connections: 1, Connect: 10 * unit, FirstByte: 30 * unit, Stall: 30 * unit})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	errs := make(chan error, 3)
	for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPut} {
		go func() {
			var body io.Reader
			if method == http.MethodPut {
				body = strings.NewReader("content")
			}
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL, body)
			if err != nil {
				errs <- err
				return
			}
			resp, err := tr.RoundTrip(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				err = errors.Join(err, resp.Body.Close())
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", method, err)
			}
			errs <- err
		}()
	}
	return errors.Join(<-errs, <-errs, <-errs)
}
