package codec_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
)

func TestTable(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint32]string{1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 307: "bz2", 32001: "blosc", 32015: "zstd"} {
		e, ok := codec.HDF5(id)
		if back, ok2 := codec.ByID(want); !ok || !ok2 || e.ID != want || back.HDF5 != id {
			t.Errorf("HDF5 filter %d: want %q, got %q", id, want, e.ID)
		}
	}
	if _, ok := codec.HDF5(0); ok {
		t.Error("0 is no filter")
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
