package s3_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// proxies selects the server for each virtual host. The whole test binary uses it as
// its proxy.
var proxies = newFront()

// userEnv holds the original values of the variables that TestMain changed; empty if
// unset.
var userEnv = map[string]string{} // set by TestMain only

// runID distinguishes the objects of this run from the objects of other runs.
var runID = rand.Text() // never changed

// self allows the host to run the driver in processes of this program.
var self plugin.Self // set by TestMain only

// TestMain removes the user's AWS settings, and directs requests for hosts other than
// loopback addresses to a proxy. It keeps HOME, because the S3 server is cached below
// it and would be built again.
func TestMain(m *testing.M) {
	s3.HaveTime() // this code also runs in plugin processes
	self = plugin.Main(plugin.Builtin{Openers: []driver.Opener{s3.New()}})
	dir, err := os.MkdirTemp("", "s3")
	if err != nil {
		panic(err)
	}
	for _, line := range os.Environ() {
		name, _, _ := cut(line)
		if len(name) > 4 && name[:4] == "AWS_" {
			userEnv[name] = os.Getenv(name)
			os.Unsetenv(name)
		}
	}
	front := proxies.start()
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
		"AWS_EC2_METADATA_DISABLED": "true", "HTTP_PROXY": front.URL, "http_proxy": front.URL, "HTTPS_PROXY": "", "https_proxy": "",
		"NO_PROXY": "", "no_proxy": "",
		"AWS_ACCESS_KEY_ID": "test-access", "AWS_SECRET_ACCESS_KEY": "test-secret-key",
	} {
		if _, had := userEnv[name]; !had {
			userEnv[name] = os.Getenv(name)
		}
		os.Setenv(name, value)
	}
	code := m.Run()
	front.Close()
	os.RemoveAll(dir)
	os.Exit(code)
}

// remote returns the driver in a separate, sandboxed process.
func remote(t *testing.T) driver.Opener {
	t.Helper()
	h, err := host.New(&host.Options{Self: self, Isolation: host.Process, StartTimeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	o, err := h.Driver("s3")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var places atomic.Int64

// specOn returns the spec of a new location on a server.
func specOn(endpoint, bucket string, options map[string]any) driver.OpenSpec {
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err)
	}
	return driver.OpenSpec{
		Path: fmt.Sprintf("%s/d%d/x.zarr", bucket, places.Add(1)), Endpoint: endpoint, Options: raw, Mode: driver.Create,
	}
}

// open opens a store on a real server.
func open(t *testing.T, s *s3server.Server, options map[string]any) (driver.Map, driver.OpenSpec) {
	t.Helper()
	spec := specOn(s.Endpoint, s.Bucket, options)
	return openSpec(t, spec), spec
}

func openSpec(t *testing.T, spec driver.OpenSpec) driver.Map {
	t.Helper()
	m, err := s3.New().Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return m
}
