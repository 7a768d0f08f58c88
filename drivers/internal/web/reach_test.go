package web_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testdns"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

func TestMain(m *testing.M) {
	testdns.Install(map[string]string{"here.example": "127.0.0.1", "private.example": "10.1.2.3", "cloud.example": "169.254.169.254"})
	os.Exit(m.Run())
}

// TestReachPublic checks that a Transport with ReachPublic connects to no local address, for
// every way to write one, with and without a proxy.
func TestReachPublic(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "localhost", "a.localhost", "LOCALHOST.", "0.0.0.0", "0.1.2.3", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]",
		"10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1", "192.0.0.1", "169.254.169.254", "[fe80::1]", "[fe80::1%25lo]", "[fd00:ec2::254]", "[fec0::1]",
		"[::ffff:10.0.0.1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "127.0.0.1.",
	} {
		for _, proxy := range []string{"", s.URL} {
			err := fetch(t, web.Options{Reach: web.ReachPublic, Proxy: proxy}, "http://"+host+":"+port+"/")
			// Without a proxy, a name that is not an address does not exist.
			if k := ncerr.KindOf(err); k != ncerr.ErrPermission && (proxy != "" || k != ncerr.ErrIO) {
				t.Errorf("%s, proxy %q: %v", host, proxy, err)
			}
			if again, _ := ncerr.Retry(err); again {
				t.Errorf("%s, proxy %q: the error is retryable", host, proxy)
			}
		}
	}
	for _, host := range []string{"here.example", "private.example", "cloud.example"} {
		if err := fetch(t, web.Options{Reach: web.ReachPublic}, "http://"+host+":"+port+"/"); ncerr.KindOf(err) != ncerr.ErrPermission || !strings.Contains(err.Error(), "refused to connect") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the server received %d requests", n)
	}
	// The limits are not those of the proxy or of other Transports.
	if err := fetch(t, web.Options{Reach: web.ReachPublic, Proxy: s.URL}, "http://data.example/"); err != nil {
		t.Error(err)
	}
	if err := fetch(t, web.Options{}, "http://here.example:"+port+"/"); err != nil {
		t.Error(err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("want 2 requests, got %d", n)
	}
}

// TestReachSame checks that later connections are not more local than the first one.
func TestReachSame(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	tr, err := web.New(web.Options{Reach: web.ReachSame})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	get := func(host string) error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+port+"/", nil)
		req.RequestURI = ""
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return web.RequestError(t.Context(), err)
		}
		return resp.Body.Close()
	}
	if err := get("here.example"); err != nil { // the first server is on this machine, so the user asked for it
		t.Error(err)
	}
	if err := get("127.0.0.1"); err != nil {
		t.Error(err)
	}
	web.SetFirst(tr, "203.0.113.1")
	for _, host := range []string{"here.example", "127.0.0.1", "private.example"} { // here.example has an idle connection
		if err := get(host); ncerr.KindOf(err) != ncerr.ErrPermission {
			t.Errorf("%s after a public server: %v", host, err)
		}
	}
}

// fetch sends one request.
func fetch(t *testing.T, o web.Options, url string) error {
	t.Helper()
	tr, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return web.RequestError(t.Context(), err)
	}
	return resp.Body.Close()
}
