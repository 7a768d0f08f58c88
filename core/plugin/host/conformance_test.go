package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestConformance runs the conformance suite of storage drivers through the protocol,
// both over an in-memory connection and with real processes. It runs the suite briefly
// except once, because other tests run the whole suite without the protocol. The protocol
// does not depend on the driver, so some pairs run only if NCZARR_FULL is set, as make
// nightly does.
func TestConformance(t *testing.T) {
	t.Parallel()
	full := os.Getenv("NCZARR_FULL") == "1"
	for _, tc := range []struct {
		isolation host.Isolation
		driver    string
		full      bool // run only if NCZARR_FULL is set
	}{
		{host.Loopback, "mem", false},
		{host.Loopback, "file", true},
		{host.Loopback, "zip", true},
		{host.Process, "file", false},
		{host.Process, "zip", false},
		{inlineProcess, "file", true},
		{inlineProcess, "zip", false},
	} {
		if tc.full && !full {
			continue
		}
		t.Run(string(tc.isolation)+"/"+tc.driver, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			opts := levelOptions(tc.isolation)
			opts.Roots = []string{dir}
			if tc.driver == "mem" {
				opts.Builtin = plugin.Builtin{Openers: []driver.Opener{memmap.NewOpener()}}
			}
			h := newHost(t, opts)
			o, err := h.Driver(tc.driver)
			if err != nil {
				t.Fatal(err)
			}
			var n atomic.Int64
			target := &mapsuite.Target{Opener: o, NewSpec: func() (driver.OpenSpec, func(), error) {
				return driver.OpenSpec{Path: filepath.Join(dir, fmt.Sprint("s", n.Add(1)))}, nil, nil
			}}
			effort := conformance.Brief
			if tc.isolation == host.Process {
				target.Crash = func() error { return h.Kill(t.Context()) }
				if full || tc.driver == "zip" {
					effort = conformance.Normal
				}
			}
			conformance.TestWith(t, mapsuite.Suite(), target, &conformance.Options{Effort: effort})
			if deaths := h.Deaths(); len(deaths) > 0 {
				t.Errorf("processes died: %v", deaths)
			}
			var jobs int64
			for _, p := range h.Plugins() {
				jobs += p.Jobs
				if p.PID != 0 && p.Level != levelOf(tc.isolation) {
					t.Errorf("want a process at level %d, got %+v", levelOf(tc.isolation), p)
				}
			}
			if jobs == 0 {
				t.Error("no process has served a job")
			}
		})
	}
}

// requiredParams contains parameters for the codecs that require parameters.
var requiredParams = map[string]any{
	"bitround":         map[string]any{"keepbits": 9},
	"cast_value":       map[string]any{"data_type": "<i4", "out_of_range": "clamp"},
	"categorize":       map[string]any{"labels": codecsuite.Words()},
	"fixedscaleoffset": map[string]any{"offset": 0, "scale": 2},
	"quantize":         map[string]any{"digits": 2},
	"szip":             map[string]any{"mask": 32, "pixels-per-block": 16},
	"vlen-array":       map[string]any{"dtype": "|u1"},
}

// typeOf returns an element type that a codec accepts.
func typeOf(id string) dtype.Type {
	switch id {
	case "packbits":
		return dtype.Type{Kind: dtype.Bool, Size: 1}
	case "delta":
		return dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Big}
	case "categorize", "json2", "msgpack2", "vlen-array", "vlen-bytes", "vlen-utf8":
		return dtype.Type{Kind: dtype.String}
	}
	return dtype.Type{Kind: dtype.Float, Size: 4, Order: dtype.Big}
}

// TestCodecConformance runs the filter suite through the protocol for every built-in
// codec. It uses all types for common codecs and one type for other codecs. It runs the
// suite briefly, because other tests run the whole suite without the protocol. The
// protocol does not depend on the codec, so the slowest codecs run only if NCZARR_FULL is
// set, as make nightly does, and only one codec of each kind runs in the other ways of
// running plugins. With -short it tests only the common codecs.
func TestCodecConformance(t *testing.T) {
	t.Parallel()
	common := []string{"zlib", "zstd", "blosc", "shuffle"}
	full := os.Getenv("NCZARR_FULL") == "1"
	everywhere := []string{"blosc", "bitround", "vlen-utf8"}
	slow := []string{"bz2", "lzma"}
	for _, isolation := range []host.Isolation{host.Loopback, host.Process, inlineProcess} {
		for _, d := range builtin.Provider().Describe() {
			id := d.ID
			switch {
			case testing.Short() && !slices.Contains(common, id):
				continue
			case !full && slices.Contains(slow, id):
				continue
			case !full && isolation != host.Process && !slices.Contains(everywhere, id):
				continue
			}
			t.Run(string(isolation)+"/"+id, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, levelOptions(isolation))
				p, err := h.Filter(id)
				if err != nil {
					t.Fatal(err)
				}
				target := &codecsuite.Target{Provider: p, ID: id, Types: []dtype.Type{typeOf(id)}, Exact: id == "json2" || id == "delta"}
				if slices.Contains(common, id) {
					target.Types = nil
				}
				if params, ok := requiredParams[id]; ok {
					b, err := json.Marshal(params)
					if err != nil {
						t.Fatal(err)
					}
					target.Params = []json.RawMessage{b}
				}
				conformance.TestWith(t, codecsuite.Suite(), target, &conformance.Options{Effort: conformance.Brief})
				if i := h.Plugins()[0]; i.Jobs == 0 || i.Level != levelOf(isolation) {
					t.Errorf("want jobs served at level %d, got %+v", levelOf(isolation), i)
				}
			})
		}
	}
}
