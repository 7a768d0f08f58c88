package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

var _ manifest.Resolver = (*store.Resolver)(nil)

// recording is a driver that records which stores it opens.
type recording struct {
	driver.Opener // describes the driver
	log           *opened
}

type opened struct {
	mu    sync.Mutex
	specs []driver.OpenSpec
}

func (n recording) Open(_ context.Context, spec driver.OpenSpec) (driver.Map, error) {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.log.specs = append(n.log.specs, spec)
	return memmap.New(), nil
}

// resolver returns the Resolver of the reference file at url, and the stores that it opens.
func resolver(t *testing.T, url string, access store.Access, o *store.Options) (*store.Resolver, *opened) {
	t.Helper()
	log := &opened{}
	o.Registry = registry.New([]driver.Opener{recording{file.New(), log}, recording{s3.New(), log}, recording{http.New(), log}})
	r, err := store.NewResolver(t.Context(), parse(t, url, false), &ncurl.Env{Vars: map[string]string{"AWS_PROFILE": "secret"}, Profiles: map[string]ncurl.Profile{"secret": {}, "work": {}}}, access, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r, log
}

// TestReferencesBelowTheRoot checks which references refer to objects in the directory of the
// reference file.
func TestReferencesBelowTheRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		ref  string
		key  string // "" if the reference is refused
		kind ncerr.Kind
	}{
		{"/data/set/x.json", "a.nc", "a.nc", 0},
		{"/data/set/x.json", "sub/./a b%20.nc", "sub/a b%20.nc", 0},
		{"/data/set/x.json", "sub/../a.nc", "a.nc", 0},
		{"/data/set/x.json", "/data/set/sub/a.nc", "sub/a.nc", 0},
		{"/data/set/x.json", "file:///data/set/a%20b.nc", "a b.nc", 0},
		{"/data/set/x.json", "file:///data/set/a.zip", "a.zip", 0},
		{"/data/set/x.json", "a#b?c.nc", "a#b?c.nc", 0},
		{"/data/set/x.json", "%2e%2e/a.nc", "%2e%2e/a.nc", 0}, // a path is not decoded
		{"/data/set/x.json", "../a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "sub/../../a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "..", "", ncerr.ErrPermission},
		{"/data/set/x.json", ".", "", ncerr.ErrPermission},
		{"/data/set/x.json", "/data/set", "", ncerr.ErrPermission},
		{"/data/set/x.json", "/data/settings/a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "/data/set/../../etc/passwd", "", ncerr.ErrPermission},
		{"/data/set/x.json", "/etc/passwd", "", ncerr.ErrPermission},
		{"/data/set/x.json", "file:///etc/passwd", "", ncerr.ErrPermission},
		{"/data/set/x.json", "FILE:/etc/passwd", "", ncerr.ErrPermission},
		{"/data/set/x.json", "file:///data/set/%2e%2e/%2e%2e/etc/passwd", "", ncerr.ErrPermission},
		{"/data/set/x.json", "file:///data/set%2f..%2f..%2fetc/passwd", "", ncerr.ErrBadURL},
		{"/data/set/x.json", "file://server/share/a.nc", "", ncerr.ErrBadURL},
		{"/data/set/x.json", "file:etc/passwd", "", ncerr.ErrBadURL},
		{"/data/set/x.json", `..\a.nc`, "", ncerr.ErrBadURL},
		{"/data/set/x.json", `C:\Windows\win.ini`, "", ncerr.ErrBadURL},
		{"/data/set/x.json", "C:/Windows/win.ini", "", ncerr.ErrUnsupported},
		{"/data/set/x.json", `\\server\share\a.nc`, "", ncerr.ErrBadURL},
		{"/data/set/x.json", "//server/share/a.nc", "", ncerr.ErrBadURL},
		{"/data/set/x.json", "a\x00.nc", "", ncerr.ErrBadURL},
		{"/data/set/x.json", "s3://bucket/a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "http://127.0.0.1/a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "https://data.example/a.nc", "", ncerr.ErrPermission},
		{"/data/set/x.json", "ftp://data.example/a.nc", "", ncerr.ErrUnsupported},
		{"/data/set/x.json", "simplecache::s3://bucket/a.nc", "", ncerr.ErrUnsupported},
		{"/data/set/x.json", "mem:x", "", ncerr.ErrUnsupported},
		{"/x.json", "/etc/passwd", "etc/passwd", 0}, // the user named the root directory

		{"s3://bucket/set/x.json", "a.nc", "a.nc", 0},
		{"s3://bucket/set/x.json", "s3://bucket/set/sub/a%20b.nc", "sub/a b.nc", 0},
		{"s3://bucket/x.json", "s3://bucket/a.nc", "a.nc", 0},
		{"s3://bucket/set/x.json", "https://s3.us-east-1.amazonaws.com/bucket/set/a.nc", "a.nc", 0},
		{"s3://bucket/set/x.json", "https://bucket.s3.eu-west-1.amazonaws.com/set/a.nc", "a.nc", 0},
		{"http://localhost:9000/bucket/set/x.json#mode=s3", "s3://bucket/set/a.nc", "a.nc", 0},
		{"http://localhost:9000/bucket/set/x.json#mode=s3", "http://localhost:9000/bucket/set/a.nc", "a.nc", 0},
		{"http://localhost:9000/bucket/set/x.json#mode=s3", "http://localhost:9001/bucket/set/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "http://localhost:9000/bucket/set/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "s3://other/set/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "gs://bucket/set/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "s3://bucket/settings/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "../a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "../../other/a.nc", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "s3://bucket/set/../a.nc", "", ncerr.ErrBadURL},
		{"s3://bucket/set/x.json", "s3://bucket/set/%2e%2e/a.nc", "", ncerr.ErrBadURL},
		{"s3://bucket/set/x.json", "s3://bucket/set/a.nc#aws.profile=secret", "", ncerr.ErrBadURL},
		{"s3://bucket/set/x.json", "s3://bucket/set/a.nc#aws.endpoint=http://localhost", "", ncerr.ErrBadURL},
		{"s3://bucket/set/x.json", "[aws.profile=secret]s3://bucket/set/a.nc", "", ncerr.ErrUnsupported},
		{"s3://bucket/set/x.json", "/etc/passwd", "", ncerr.ErrPermission},
		{"s3://bucket/set/x.json", "file:///etc/passwd", "", ncerr.ErrPermission},

		{"https://data.example/set/x.json", "a.nc", "a.nc", 0},
		{"https://data.example/set/x.json", "https://data.example/set/a%20b.nc", "a b.nc", 0},
		{"https://data.example/set/x.json", "https://DATA.example:443/set/./a.nc", "a.nc", 0},
		{"https://data.example/a%20b/x.json", "https://data.example/a%20b/a.nc", "a.nc", 0},
		{"https://data.example/set/x.json", "https://data.example/set/%252e%252e/a.nc", "%2e%2e/a.nc", 0}, // decoded once
		{"https://data.example/set/x.json", "https://data.example/set/%2e%2e/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "https://data.example/set/..%2f..%2fa.nc", "", ncerr.ErrBadURL},
		{"https://data.example/set/x.json", "https://data.example/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "http://data.example/set/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "https://data.example:8443/set/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "https://data.example.evil.example/set/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "https://data.example@evil.example/set/a.nc", "", ncerr.ErrBadURL},
		{"https://data.example/set/x.json", "https://data.example/set/a.nc?x=1", "", ncerr.ErrBadURL},
		{"https://data.example/set/x.json", "http://2130706433/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "http://169.254.169.254/latest/meta-data", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "http://[::ffff:127.0.0.1]/a.nc", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "/etc/passwd", "", ncerr.ErrPermission},
		{"https://data.example/set/x.json", "../a.nc", "", ncerr.ErrPermission},
	} {
		r, log := resolver(t, c.file, store.Access{}, &store.Options{})
		m, key, err := r.Resolve(t.Context(), c.ref)
		if key != c.key || ncerr.KindOf(err) != c.kind || c.kind == 0 && m != r.Root().Map {
			t.Errorf("%s: %s: want %q (%v), got %q, %v", c.file, c.ref, c.key, c.kind, key, err)
		}
		if c.kind == ncerr.ErrPermission && !strings.Contains(err.Error(), "--allow-prefix=") {
			t.Errorf("%s: %s: the error does not name the option: %v", c.file, c.ref, err)
		}
		if len(log.specs) != 1 {
			t.Errorf("%s: %s: %d stores were opened", c.file, c.ref, len(log.specs))
		}
	}
}

// TestAllowedReferences checks the options with which the store of an allowed place is opened.
// They contain no secret of the user, unless the place itself has credentials.
func TestAllowedReferences(t *testing.T) {
	t.Parallel()
	user := map[string][]byte{
		"s3":   []byte(`{"profile": "secret", "endpoint": "http://secret.example", "page_size": 7}`),
		"http": []byte(`{"query": "secret", "origin": "https://data.example", "user": "secret", "password": "secret", "netrc": "/secret", "ca_file": "/certs"}`),
		"file": []byte(`{"durability": "rename"}`),
	}
	for _, c := range []struct {
		prefix store.Prefix
		local  bool
		ref    string
		place  string // endpoint and path
		want   string // options
	}{
		{store.Prefix{URL: "s3://other/dir"}, false, "s3://other/dir/a.nc", "https://s3.us-east-1.amazonaws.com other/dir", `{"page_size":7,"reach":"public","region":"us-east-1","unsigned":true}`},
		{store.Prefix{URL: "s3://other/dir/#aws.profile=work"}, false, "s3://other/dir/a.nc", "https://s3.us-east-1.amazonaws.com other/dir", `{"page_size":7,"profile":"work","reach":"public","region":"us-east-1","unsigned":false}`},
		{store.Prefix{URL: "s3://other/", Options: []byte(`{"unsigned": false, "reach": ""}`)}, false, "s3://other/a.nc", "https://s3.us-east-1.amazonaws.com other", `{"page_size":7,"reach":"","region":"us-east-1","unsigned":false}`},
		{store.Prefix{URL: "gs://other/dir"}, false, "gcs://other/dir/a.nc", "https://storage.googleapis.com other/dir", `{"page_size":7,"reach":"public","unsigned":true}`},
		{store.Prefix{URL: "https://other.example/dir"}, false, "https://other.example/dir/a.nc", "https://other.example /dir", `{"anonymous":true,"ca_file":"/certs","reach":"public"}`},
		{store.Prefix{URL: "https://other.example/dir"}, true, "https://other.example/dir/a.nc", "https://other.example /dir", `{"anonymous":true,"ca_file":"/certs"}`},
		{store.Prefix{URL: "https://other.example/dir?token=mine"}, false, "https://other.example/dir/a.nc", "https://other.example /dir", `{"anonymous":true,"ca_file":"/certs","query":"token=mine","reach":"public"}`},
		{store.Prefix{URL: "http://127.0.0.1:8000/dir"}, false, "http://127.0.0.1:8000/dir/a.nc", "http://127.0.0.1:8000 /dir", `{"anonymous":true,"ca_file":"/certs"}`},
		{store.Prefix{URL: "http://localhost:8000/dir"}, false, "http://localhost:8000/dir/a.nc", "http://localhost:8000 /dir", `{"anonymous":true,"ca_file":"/certs"}`},
		{store.Prefix{URL: "https://data.example/more"}, false, "https://data.example/more/a.nc", "https://data.example /more", `{"anonymous":true,"ca_file":"/certs","reach":"public"}`},
		{store.Prefix{URL: "/data/dir"}, false, "/data/dir/a.nc", " /data/dir", `{"durability":"rename"}`},
		{store.Prefix{URL: "file:///data/dir"}, false, "file:/data/dir/a.nc", " /data/dir", `{"durability":"rename"}`},
	} {
		r, log := resolver(t, "https://data.example/set/x.json", store.Access{Allow: []store.Prefix{c.prefix}, AllowLocal: c.local}, &store.Options{DriverOptions: user})
		for range 2 { // the store is opened once
			if _, key, err := r.Resolve(t.Context(), c.ref); key != "a.nc" || err != nil {
				t.Errorf("%s: got %q, %v", c.ref, key, err)
			}
		}
		if len(log.specs) != 2 {
			t.Errorf("%s: %d stores were opened", c.ref, len(log.specs))
			continue
		}
		spec := log.specs[1]
		if got := spec.Endpoint + " " + spec.Path; got != c.place || spec.Mode != driver.Read || compact(t, spec.Options) != c.want {
			t.Errorf("%s:\nwant %s %s\ngot  %s %s", c.prefix.URL, c.place, c.want, got, compact(t, spec.Options))
		}
		if got := compact(t, log.specs[0].Options); !strings.Contains(got, `"reach":"same"`) || !strings.Contains(got, `"password":"secret"`) {
			t.Errorf("the store of the reference file has the options %s", got)
		}
	}
	for _, url := range []string{"", "ftp://x", "mem:x", "/data/x.zip", "s3://"} {
		o := &store.Options{Registry: registry.New([]driver.Opener{recording{file.New(), &opened{}}})}
		if _, err := store.NewResolver(t.Context(), parse(t, "/data/x.json", false), nil, store.Access{Allow: []store.Prefix{{URL: url}}}, o); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestInnermostPlace checks that the innermost of several places is used.
func TestInnermostPlace(t *testing.T) {
	t.Parallel()
	r, log := resolver(t, "/data/x.json", store.Access{Allow: []store.Prefix{{URL: "/data/a/b"}, {URL: "/data/a"}, {URL: "/"}}}, &store.Options{})
	for _, c := range []struct{ ref, key, path string }{
		{"a/b/c.nc", "c.nc", "/data/a/b"}, {"a/c.nc", "c.nc", "/data/a"}, {"/etc/c.nc", "etc/c.nc", "/"},
	} {
		if _, key, err := r.Resolve(t.Context(), c.ref); key != c.key || err != nil || log.specs[len(log.specs)-1].Path != c.path {
			t.Errorf("%s: got %q in %+v, %v", c.ref, key, log.specs[len(log.specs)-1], err)
		}
	}
	if r.Remote() {
		t.Error("local places are remote")
	}
}

// TestRelativePlace checks that a relative path allows a directory below the current one, if
// the environment does not specify the current directory.
func TestRelativePlace(t *testing.T) {
	t.Parallel()
	r, log := resolver(t, "/data/x.json", store.Access{Allow: []store.Prefix{{URL: "testdir"}}}, &store.Options{})
	dir, err := filepath.Abs("testdir")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.ToSlash(dir)
	if _, key, err := r.Resolve(t.Context(), dir+"/a.nc"); key != "a.nc" || err != nil || log.specs[len(log.specs)-1].Path != dir {
		t.Errorf("got %q, %v", key, err)
	}
}

func compact(t *testing.T, options []byte) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(options, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
