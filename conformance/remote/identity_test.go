package remote_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// TestCacheIdentity checks that data that one identity has read is not served from the
// cache to another identity without a request to the store, which may deny access.
func TestCacheIdentity(t *testing.T) { // not parallel, because it sets environment variables
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/.zmetadata") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("<Error><Code>NoSuchKey</Code></Error>"))
			return
		}
		asked.Add(1)
		w.Header().Set("ETag", `"v1"`)
		_, _ = w.Write([]byte(`{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}`))
	}))
	t.Cleanup(server.Close)
	login := filepath.Join(t.TempDir(), "credentials")
	text := "[one]\naws_access_key_id = A1\naws_secret_access_key = s1\n[two]\naws_access_key_id = A2\naws_secret_access_key = s2\n"
	if err := os.WriteFile(login, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", login)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	dir := t.TempDir()
	read := func(fragment, options, identity string, env *ncurl.Env) int64 {
		t.Helper()
		before := asked.Load()
		ds, err := open.Open(t.Context(), server.URL+"/bucket/d#mode=zarr,s3"+fragment, &dataset.Options{
			Registry: registry.New([]driver.Opener{s3.New()}), URLEnv: env,
			DriverOptions: map[string][]byte{"s3": []byte(options)},
			Remote:        layer.RemoteOptions{Cache: &layer.CacheOptions{Dir: dir, MaxAge: time.Hour, Identity: identity}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ds.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return asked.Load() - before
	}
	ofVar := &ncurl.Env{Vars: map[string]string{"AWS_PROFILE": "two"}}
	for _, tc := range []struct {
		name, fragment, options, identity string
		env                               *ncurl.Env
	}{
		{name: "unsigned", fragment: "&aws.profile=none"},
		{name: "profile one", fragment: "&aws.profile=one"},
		{name: "profile two", fragment: "&aws.profile=two"},
		{name: "region", fragment: "&aws.profile=two&aws.region=eu-west-1"},
		{name: "options", fragment: "&aws.profile=two", options: `{"addressing": "path"}`},
		{name: "variable", env: ofVar, fragment: "&aws.region=us-east-2"},
		{name: "the caller's", fragment: "&aws.profile=two", identity: "A3"},
	} {
		if tc.name == "variable" {
			t.Setenv("AWS_PROFILE", "two")
		}
		if n := read(tc.fragment, tc.options, tc.identity, tc.env); n != 1 {
			t.Errorf("%s: want 1 request at first, got %d", tc.name, n)
		}
		if n := read(tc.fragment, tc.options, tc.identity, tc.env); n != 0 {
			t.Errorf("%s: want no request the second time, got %d", tc.name, n)
		}
	}
}
