package codec_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

var catalog = codec.Catalog(builtin.Provider().Describe())

func TestHDF5Parameters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		number uint32
		params []uint32
		json   string
		back   []uint32 // result of ToHDF5 if it differs from params
	}{
		"deflate":         {1, []uint32{9}, `{"id":"zlib","level":9}`, nil},
		"shuffle":         {2, nil, `{"id":"shuffle","elementsize":4}`, []uint32{4}},
		"shuffle, stated": {2, []uint32{8}, `{"id":"shuffle","elementsize":8}`, nil},
		"fletcher32":      {3, nil, `{"id":"fletcher32"}`, nil},
		"szip":            {4, []uint32{32, 16}, `{"id":"szip","mask":32,"pixels-per-block":16}`, nil},
		"szip, working":   {4, []uint32{141, 16, 32, 100}, `{"id":"szip","mask":141,"pixels-per-block":16,"bits-per-pixel":32,"pixels-per-scanline":100}`, []uint32{141, 16}},
		"bzip2":           {307, []uint32{4}, `{"id":"bz2","level":4}`, nil},
		"zstd":            {32015, []uint32{1<<32 - 5}, `{"id":"zstd","level":-5}`, nil},
		"blosc":           {32001, []uint32{0, 0, 0, 256, 7, 2, 5}, `{"id":"blosc","cname":"zstd","clevel":7,"shuffle":2,"blocksize":256}`, nil},
		"blosc, working":  {32001, []uint32{2, 2, 4, 4000, 7, 1, 0}, `{"id":"blosc","cname":"blosclz","clevel":7,"shuffle":1,"blocksize":0}`, []uint32{0, 0, 0, 0, 7, 1, 0}},
		"blosc, bare":     {32001, nil, `{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0}`, []uint32{0, 0, 0, 0, 5, 1, 1}},
	} {
		step, err := catalog.FromHDF5(c.number, c.params, 4)
		if err != nil || string(step.Params) != c.json {
			t.Errorf("%s: want %s, got %s, %v", name, c.json, step.Params, err)
		}
		want := c.back
		if want == nil {
			want = c.params
		}
		number, params, err := catalog.ToHDF5(step.ID, step.Params)
		if err != nil || number != c.number || len(params)+len(want) > 0 && !reflect.DeepEqual(params, want) {
			t.Errorf("%s: want %d %v, got %d %v, %v", name, c.number, want, number, params, err)
		}
	}
}

func TestHDF5Faults(t *testing.T) {
	t.Parallel()
	if _, err := catalog.FromHDF5(32004, nil, 4); ncerr.KindOf(err) != ncerr.ErrNoFilter || !strings.Contains(err.Error(), "32004 (LZ4 in the frame of HDF5)") {
		t.Errorf("a number without a codec: want ErrNoFilter with the name of the filter, got %v", err)
	}
	if _, err := catalog.FromHDF5(32001, []uint32{0, 0, 0, 0, 5, 1, 6}, 4); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("an unknown inner codec: want ErrInvalid, got %v", err)
	}
	for params, want := range map[string]ncerr.Kind{
		`{"id":"zlib","level":"3"}`: 0, `{"level":null}`: 0, `{"level":4294967295}`: 0, ``: 0,
		`{"level":"x"}`: ncerr.ErrInvalid, `{"level":1.5}`: ncerr.ErrInvalid, `{"level":1e10}`: ncerr.ErrInvalid, `[]`: ncerr.ErrInvalid,
	} {
		if _, _, err := catalog.ToHDF5("zlib", json.RawMessage(params)); ncerr.KindOf(err) != want {
			t.Errorf("%s: want %v, got %v", params, want, err)
		}
	}
	if _, _, err := catalog.ToHDF5("lz4", nil); ncerr.KindOf(err) != ncerr.ErrNoFilter {
		t.Errorf("lz4: want ErrNoFilter, got %v", err)
	}
	if _, _, err := catalog.ToHDF5("blosc", json.RawMessage(`{"cname":"lzma"}`)); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("an unknown cname: want ErrInvalid, got %v", err)
	}
}

// TestHDF5OfDescription checks that a codec with a description can be found by its HDF5
// number, and that its parameters are converted in both directions.
func TestHDF5OfDescription(t *testing.T) {
	t.Parallel()
	c := codec.Catalog{
		{ID: "mine", Aliases: []string{"my"}, HDF5: 40000, Params: []driver.Param{
			{Name: "mode", Type: driver.TextParam, Choices: []string{"a", "b"}, Default: "a", HDF5: 3},
			{Name: "fast", Type: driver.BoolParam, Default: "false", HDF5: 1},
			{Name: "level", Type: driver.IntParam, Min: -9, Max: 9, Default: "2", HDF5: 2, HDF5Default: "5"},
			{Name: "scale", Type: driver.FloatParam},
		}},
		{ID: "other", HDF5: 40000},
	}
	for _, tc := range []struct {
		params []uint32
		json   string
		back   []uint32
	}{
		{nil, `{"id":"mine","mode":"a","fast":false,"level":5}`, []uint32{0, 5, 0}},
		{[]uint32{1, 1<<32 - 2, 1}, `{"id":"mine","mode":"b","fast":true,"level":-2}`, []uint32{1, 1<<32 - 2, 1}},
	} {
		step, err := c.FromHDF5(40000, tc.params, 4)
		if err != nil || string(step.Params) != tc.json {
			t.Errorf("%v: want %s, got %s, %v", tc.params, tc.json, step.Params, err)
		}
		if _, params, err := c.ToHDF5("my", step.Params); err != nil || !reflect.DeepEqual(params, tc.back) {
			t.Errorf("%s: want %v, got %v, %v", step.Params, tc.back, params, err)
		}
	}
	if _, params, err := c.ToHDF5("mine", nil); err != nil || !reflect.DeepEqual(params, []uint32{0, 2, 0}) {
		t.Errorf("defaults: got %v, %v, want 0, 2, 0", params, err)
	}
	if _, err := c.FromHDF5(40000, []uint32{0, 0, 2}, 4); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("an unknown choice: want ErrInvalid, got %v", err)
	}
	if _, ok := c.ByHDF5(0); ok {
		t.Error("ByHDF5 found a filter with number 0")
	}
	if d, _ := c.Find("x"); d.ID != "" {
		t.Errorf("Find of an unknown name: got %+v, want no codec", d)
	}
}

func TestRefusalReason(t *testing.T) {
	t.Parallel()
	_, err := codec.Open(t.Context(), []driver.Step{{ID: "pickle"}}, driver.Spec{MaxBytes: 8}, func(string) (driver.Provider, error) { return nil, nil })
	reason, ok := codec.Refused("pickle")
	if !ok || ncerr.KindOf(err) != ncerr.ErrNoFilter || !strings.Contains(err.Error(), reason) {
		t.Errorf("want ErrNoFilter with %q, got %v", reason, err)
	}
}
