package codec_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
)

func TestTable(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint32]string{1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 307: "bz2", 32001: "blosc", 32015: "zstd"} {
		e, ok := codec.HDF5(id)
		if back, ok2 := codec.ByID(want); !ok || !ok2 || e.ID != want || back.HDF5 != id {
			t.Errorf("HDF5 filter %d: want %q, got %q", id, want, e.ID)
		}
	}
	if e, ok := codec.ByV3("numcodecs.zlib"); !ok || e.ID != "zlib" {
		t.Errorf(`v3 "numcodecs.zlib": want "zlib", got %q`, e.ID)
	}
	if _, ok := codec.HDF5(0); ok {
		t.Error("0 is no filter")
	}
	if _, ok := codec.ByV3(""); ok {
		t.Error("the empty name is no codec")
	}
	seen := map[any]bool{}
	for _, e := range codec.Table() {
		for _, key := range []any{"id:" + e.ID, "v3:" + e.V3, e.HDF5} {
			if key == "v3:" || key == uint32(0) {
				continue
			}
			if seen[key] {
				t.Errorf("%v stands twice in the table", key)
			}
			seen[key] = true
		}
	}
}

func TestSplitJoin(t *testing.T) {
	t.Parallel()
	a, b, c := driver.Step{ID: "a"}, driver.Step{ID: "b"}, driver.Step{ID: "c"}
	for name, chain := range map[string][]driver.Step{"none": nil, "sole": {a}, "two": {a, b}, "three": {a, b, c}} {
		filters, compressor := codec.Split(chain)
		if len(chain) > 0 && (compressor == nil || compressor.ID != chain[len(chain)-1].ID) {
			t.Errorf("%s: the last step is the compressor, got %v", name, compressor)
		}
		if len(chain) == 1 && filters != nil {
			t.Errorf("a sole step leaves no filters, got %v", filters)
		}
		back := codec.Join(filters, compressor)
		if len(back) != len(chain) {
			t.Fatalf("%s: want %d steps, got %d", name, len(chain), len(back))
		}
		for i := range back {
			if back[i].ID != chain[i].ID {
				t.Errorf("%s: step %d: want %q, got %q", name, i, chain[i].ID, back[i].ID)
			}
		}
	}
}
