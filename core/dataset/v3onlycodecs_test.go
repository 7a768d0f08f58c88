package dataset_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/castvalue"
	"github.com/seed-695719ce/nczarr/filters/packbits"
	"github.com/seed-695719ce/nczarr/filters/scaleoffset"
)

// TestCodecsOnlyInV3 writes arrays with codecs that exist only in Zarr v3. The values must
// come back, also from copies, and a copy to Zarr v2 must not name the codecs.
func TestCodecsOnlyInV3(t *testing.T) {
	t.Parallel()
	o := memory(castvalue.Provider(), packbits.Provider(), packbits.V3Provider(), scaleoffset.Provider())
	ds := create(t, "mem:s#mode=zarr,v3", o)
	want := []int16{1000, 1255, 1003, 1000, 1001}
	x := dim(t, ds.Root(), "x", 5, false)
	for name, chain := range map[string][]zarr.CodecSpec{
		"cast": {{ID: "scale_offset", Params: json.RawMessage(`{"offset": 1000}`)}, {ID: "cast_value", Params: json.RawMessage(`{"data_type": "|u1"}`)}},
		"bits": {{ID: "zarr.packbits", Params: json.RawMessage(`{"last_bit": 11}`)}},
	} {
		v := define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}, Chunks: []int64{3}, Codecs: chain, Fill: []int16{1000}})
		if err := v.Write(t.Context(), v.All(), want); err != nil {
			t.Fatal(name, err)
		}
	}
	closeDataset(t, ds)
	src := open(t, "mem:s", o)
	for _, mode := range []string{"", "zarr,v3", "nczarr,v3", "zarr,v2", "nczarr"} {
		got := src
		if mode != "" {
			got = copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil)
		}
		for _, name := range []string{"cast", "bits"} {
			v := variable(t, got, name)
			if list, err := dataset.Get[int16](t.Context(), v, v.All()); err != nil || !slices.Equal(list, want) {
				t.Errorf("%q: %s: want %v, got %v, %v", mode, name, want, list, err)
			}
			if n := len(v.Codecs()); (n == 0) != (mode == "zarr,v2" || mode == "nczarr") {
				t.Errorf("%q: %s has %d codecs", mode, name, n)
			}
		}
	}
}
