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

// proxies chooses the server behind each virtual host, for the proxy that the
// whole test binary uses.
var proxies = newFront()

// users are the variables that TestMain changed, as they were; empty for none.
var users = map[string]string{} // set by TestMain only

// runID tells the objects of this run from those of others.
var runID = rand.Text() // constant

// self is the right to serve the driver from processes of this program.
var self plugin.Self // set by TestMain only

// TestMain takes the user's AWS settings away, and sends requests for hosts
// that are not loopback addresses to a proxy of the tests. HOME stays: the
// server of the tests is kept below it, and would be built anew.
func TestMain(m *testing.M) {
	s3.HaveTime() // in plugin processes, too
	self = plugin.Main(plugin.Builtin{Openers: []driver.Opener{s3.New()}})
	dir, err := os.MkdirTemp("", "s3")
	if err != nil {
		panic(err)
	}
	for _, line := range os.Environ() {
		name, _, _ := cut(line)
		if len(name) > 4 && name[:4] == "AWS_" {
			users[name] = os.Getenv(name)
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
		if _, had := users[name]; !had {
			users[name] = os.Getenv(name)
		}
		os.Setenv(name, value)
	}
	code := m.Run()
	front.Close()
	os.RemoveAll(dir)
	os.Exit(code)
}

// remote gives the driver in a process of its own, in its sandbox.
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

// specOn names a fresh place on a server.
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
