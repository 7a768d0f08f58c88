package host_test

import (
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestEscapeAsked: a plugin that was started only to be asked what it serves is
// confined as one that was started to serve it, and serves it thereafter.
func TestEscapeAsked(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	opts := zooOptions(t, "good", "nczarr-filter-trouble")
	opts.Builtin.Openers = []driver.Opener{trouble{name: "trouble"}}
	opts.Logger, opts.Sandbox = nil, host.SandboxAuto
	h := newHost(t, opts)
	if err := h.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	pl, _ := pipeline(t, h, 4096, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"attack:write its own file"}`)})
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
		t.Errorf("want one process for the question and the work, got %+v", list)
	}
}
