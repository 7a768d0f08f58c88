package host_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestConformance runs the suite of storage drivers through the protocol: in
// memory, and with real processes.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		isolation host.Isolation
		driver    string
	}{
		{host.Loopback, "mem"}, {host.Loopback, "file"}, {host.Loopback, "zip"}, {host.Process, "file"}, {host.Process, "zip"},
	} {
		t.Run(string(tc.isolation)+"/"+tc.driver, func(t *testing.T) {
			t.Parallel()
			opts := host.Options{Isolation: tc.isolation}
			if tc.driver == "mem" {
				opts.Builtin = plugin.Builtin{Openers: []driver.Opener{memmap.NewOpener()}}
			}
			h := newHost(t, opts)
			o, err := h.Driver(tc.driver)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var n atomic.Int64
			conformance.Test(t, mapsuite.Suite(), &mapsuite.Target{Opener: o, NewSpec: func() (driver.OpenSpec, func(), error) {
				return driver.OpenSpec{Path: filepath.Join(dir, fmt.Sprint("s", n.Add(1)))}, nil, nil
			}})
			if tc.isolation == host.Process && h.Plugins()[0].Jobs == 0 {
				t.Error("no job was served by a process")
			}
		})
	}
}
