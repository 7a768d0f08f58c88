package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// TestRedirectToLocalAddress checks that a redirect to a more local address than the
// address of the redirecting server is refused, by name and by address, with and without
// a proxy.
func TestRedirectToLocalAddress(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host)
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	get := func(proxy, from, to string) error {
		tr, err := web.New(web.Options{Proxy: proxy})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.CloseIdleConnections()
		first := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+from+"/?to="+to, nil)
		first.RequestURI = ""
		var resp *http.Response
		if proxy != "" { // the proxy responds in place of from
			resp, err = (&http.Client{Transport: tr}).Do(first)
		} else {
			second := httptest.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
			second.Response = &http.Response{Request: first}
			resp, err = tr.RoundTrip(second)
		}
		if err != nil {
			return web.RequestError(t.Context(), err)
		}
		return resp.Body.Close()
	}
	for _, c := range []struct {
		from, to string
		proxied  bool
		refused  bool
	}{
		{"data.example", "http://127.0.0.1:" + port, false, true},
		{"data.example", "http://localhost:" + port, false, true},
		{"data.example", "http://[::ffff:127.0.0.1]:" + port, false, true},
		{"data.example", "http://0.0.0.0:" + port, false, true},
		{"10.0.0.1", "http://127.0.0.1:" + port, false, true},
		{"127.0.0.2", "http://127.0.0.1:" + port, false, false},
		{"localhost", "http://127.0.0.1:" + port, false, false},
		{"data.example", "http://127.0.0.1/x", true, true},
		{"data.example", "http://LOCALHOST./x", true, true},
		{"data.example", "http://a.localhost/x", true, true},
		{"data.example", "http://169.254.169.254/latest", true, true},
		{"data.example", "http://10.0.0.1/x", true, true},
		{"data.example", "http://100.64.0.1/x", true, true},
		{"data.example", "http://[fe80::1]/x", true, true},
		{"data.example", "http://[fd00:ec2::254]/x", true, true},
		{"data.example", "http://[::1]/x", true, true},
		{"data.example", "http://[::]/x", true, true},
		{"data.example", "http://other.example/?to=http://10.0.0.1/x", true, true}, // in two steps
		{"10.0.0.2", "http://169.254.169.254/latest", true, true},
		{"10.0.0.2", "http://other.example/?to=http://10.0.0.1/x", true, true},
		{"data.example", "http://other.example/x", true, false},
		{"10.0.0.2", "http://10.0.0.1/x", true, false},
		{"127.0.0.1", "http://10.0.0.1/x", true, false},
		{"127.0.0.1", "http://127.0.0.1:9/x", true, false},
	} {
		proxy := ""
		if c.proxied {
			proxy = s.URL
		}
		asked = nil
		err := get(proxy, c.from, c.to)
		if c.refused && (ncerr.KindOf(err) != ncerr.ErrPermission || !strings.Contains(err.Error(), "refused a redirect to")) || !c.refused && err != nil {
			t.Errorf("redirect from %s to %s: %v, requests for %q", c.from, c.to, err, asked)
		}
		if again, _ := ncerr.Retry(err); again {
			t.Errorf("redirect from %s to %s: the error is retryable", c.from, c.to)
		}
	}
}
