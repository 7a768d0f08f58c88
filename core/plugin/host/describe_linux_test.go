package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestDescribeWithGrants checks that a plugin has its configured grants when the host
// starts it only to describe itself. The plugin of the test cannot start without them.
func TestDescribeWithGrants(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	library := filepath.Join(t.TempDir(), "library")
	if err := os.WriteFile(library, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := zooOptions(t, "needs:"+library, "nczarr-driver-good")
	opts.Sandbox = host.SandboxAuto
	h := newHost(t, opts)
	want := "no library found"
	if err := h.Discover(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without the grant: want %q, got %v", want, err)
	}
	opts.DriverGrants = map[string][]string{"good": {"read:" + library}}
	h = newHost(t, opts)
	o, err := h.Driver("good")
	if err != nil {
		t.Fatal(err)
	}
	if d := o.Describe(); !strings.Contains(d.Summary, "misbehaves") {
		t.Errorf("the plugin did not describe itself: %+v", d)
	}
	if err := h.Start(t.Context(), "good"); err != nil {
		t.Error(err)
	}
	if list := h.Plugins(); len(list) != 1 || !list[0].Described || len(h.Deaths()) != 0 || !slices.Contains(list[0].Grants, "read:"+library) {
		t.Errorf("got %+v, deaths %v", list, h.Deaths())
	}
}

// TestOpenReportsStartError checks that opening a store reports why the plugin failed to
// start when the host needed its description.
func TestOpenReportsStartError(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "exits", "nczarr-driver-good")
	opts.MaxRestarts = -1 // the first start reports the error
	h := newHost(t, opts)
	o, err := h.Driver("good")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Open(t.Context(), driver.OpenSpec{Path: "x"}); err == nil || !strings.Contains(err.Error(), "no license found") || h.Plugins()[0].Described {
		t.Errorf("want an error with the last output of the plugin, got %v", err)
	}
	if err := h.Start(t.Context(), "good"); err == nil {
		t.Error("Start succeeded for a plugin that cannot start")
	}
}

// TestEscapeWhileDescribing checks that the host confines a plugin that it starts only
// to read the description, and that the same process then serves requests.
func TestEscapeWhileDescribing(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	opts := zooOptions(t, "good", "nczarr-filter-trouble")
	opts.Builtin.Openers = []driver.Opener{trouble{name: "trouble"}}
	opts.Logger, opts.Sandbox = nil, host.SandboxAuto
	h := newHost(t, opts)
	if err := h.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	pl, _ := pipeline(t, h, 4096, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"attack:write to its private directory"}`)})
	got := "nothing"
	err := pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("x"), Limit: 4096}}, func(_ int, out []byte, err error) {
		if got = string(out); err != nil {
			got = err.Error()
		}
	})
	if err != nil || got != "refused" {
		t.Errorf("write its own file: want %q, got %q, %v", "refused", got, err)
	}
	if list := h.Plugins(); len(list) != 1 || list[0].Restarts != 0 {
		t.Errorf("want one process for describing and serving, got %+v", list)
	}
}
