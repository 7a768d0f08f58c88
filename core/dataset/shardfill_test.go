package dataset_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestFillBeforeShards reads and updates shards with element-wise codecs before
// sharding_indexed. An absent chunk of a shard that exists must read as the fill value. If
// a codec changes the fill value, the variable must be refused.
func TestFillBeforeShards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codecs, fill string
		want         []float64 // nil if the variable is refused
	}{
		"offset": {`{"name": "scale_offset", "configuration": {"offset": 5}}, {"name": "cast_value", "configuration": {"data_type": "int16"}}`, "7", []float64{6, 8, 7, 7}},
		"number": {`{"name": "numcodecs.fixedscaleoffset", "configuration": {"offset": 0, "scale": 2, "dtype": "<f8", "astype": "<i2"}}`, "0", []float64{0.5, 1.5, 0, 0}},
		"shift":  {`{"name": "numcodecs.fixedscaleoffset", "configuration": {"offset": 5, "scale": 1, "dtype": "<f8", "astype": "<i2"}}`, "0", nil},
		"cast":   {`{"name": "numcodecs.astype", "configuration": {"encode_dtype": "<i2", "decode_dtype": "<f8"}}`, "0.5", nil},
		"nan":    {`{"name": "cast_value", "configuration": {"data_type": "int16"}}`, `"NaN"`, nil},
		"round":  {`{"name": "numcodecs.bitround", "configuration": {"keepbits": 2}}`, "9.5", nil},
	} {
		o := memory(filters.Provider())
		members := strings.Replace(sharded("[4]", "[2]", `"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]`), `"codecs": [{"name": "sharding`, `"codecs": [`+c.codecs+`, {"name": "sharding`, 1)
		store(t, o, "s", map[string]string{
			"zarr.json": v3Group,
			"v/zarr.json": `{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "float64", "fill_value": ` + c.fill + `,
				"chunk_key_encoding": {"name": "default"}, ` + members + `}`,
			"v/c/0": rawShard("\x01\x00\x03\x00", 0, 4, 1<<64-1, 1<<64-1),
		})
		ds := open(t, "mem:s", o)
		v := variable(t, ds, "v")
		got, err := dataset.Get[float64](t.Context(), v, v.All())
		if c.want == nil {
			if ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), "changes the fill value") {
				t.Errorf("%s: want ErrUnsupported because of the fill value, got %v, %v", name, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: want %v, got %v, %v", name, c.want, got, err)
		}
		closeDataset(t, ds)
		u := *o
		u.Update = true
		ds = open(t, "mem:s", &u)
		v = variable(t, ds, "v")
		if err := v.SetAttr(dataset.Attr{Name: "a", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
			t.Fatal(name, err)
		}
		sel := v.All()
		sel.Start[0], sel.Count[0] = 3, 1
		if err := v.Write(t.Context(), sel, []float64{c.want[0]}); err != nil {
			t.Fatal(name, err)
		}
		closeDataset(t, ds)
		v = variable(t, open(t, "mem:s", o), "v")
		want := append(c.want[:3:3], c.want[0])
		if got, err := dataset.Get[float64](t.Context(), v, v.All()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: want %v after an update, got %v, %v", name, want, got, err)
		}
	}
}
