package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// rank returns a JSON array that contains member n times.
func rank(n int, member string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(member+",", n), ",") + "]"
}

// Unusual shapes and chunk shapes are either read correctly or left out with a reason.
// None causes a panic or takes much memory.
func TestHostileShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape, chunks string
		want          error // kind of the problem
		read          error // kind of the error when reading all values
	}{
		"huge shape":     {"[4611686018427387904]", "[1]", ncerr.ErrLimit, nil},
		"large shape":    {"[1152921504606846976]", "[1]", nil, ncerr.ErrLimit},
		"product":        {"[4294967296, 4294967296]", "[1, 1]", ncerr.ErrLimit, nil},
		"hidden product": {"[0, 4294967296, 4294967296]", "[1, 1, 1]", ncerr.ErrLimit, nil},
		"beyond int64":   {"[9223372036854775808]", "[1]", ncerr.ErrMetadata, nil},
		"huge chunk":     {"[1]", "[1152921504606846976]", ncerr.ErrLimit, nil},
		"bomb":           {"[1]", "[1073741824]", ncerr.ErrLimit, nil},
		"chunk > shape":  {"[3]", "[1000]", nil, nil},
		"zero length":    {"[0, 5]", "[1, 5]", nil, nil},
		"zero chunk":     {"[3]", "[0]", ncerr.ErrBadChunk, nil},
		"rank 64":        {rank(64, "1"), rank(64, "1"), nil, nil},
		"rank 65":        {rank(65, "1"), rank(65, "1"), ncerr.ErrLimit, nil},
		"rank 64 of 0":   {rank(64, "0"), rank(64, "1"), nil, nil},
		"negative":       {"[-1]", "[1]", ncerr.ErrMetadata, nil},
		"fraction":       {"[1.5]", "[1]", ncerr.ErrMetadata, nil},
		"scalar":         {"[]", "[]", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			store(t, o, "h", map[string]string{
				".zgroup": `{"zarr_format": 2}`, "ok/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`,
				"v/.zarray": `{"shape": ` + c.shape + `, "chunks": ` + c.chunks + `, ` + i4 + `}`,
			})
			ds := open(t, "mem:h#mode=zarr", o)
			expect(t, ds, "ok", []int32{7})
			if c.want != nil {
				if p := ds.Problems(); len(p) != 1 || !errors.Is(p[0].Err, c.want) {
					t.Errorf("want one problem, %v; got %v", c.want, p)
				}
				return
			}
			v := variable(t, ds, "v")
			got, err := dataset.Get[int32](t.Context(), v, v.All())
			if !errors.Is(err, c.read) {
				t.Errorf("want %v, got %v", c.read, err)
			}
			if err == nil && (int64(len(got)) != v.All().Len() || slices.ContainsFunc(got, func(k int32) bool { return k != 7 })) {
				t.Errorf("want only values of 7, got %v", got)
			}
			if c.read == nil {
				return
			}
			last := slab(v.Shape()[0]-1, 1)
			if got, err := dataset.Get[int32](t.Context(), v, last); err != nil || !slices.Equal(got, []int32{7}) {
				t.Errorf("last element: want [7], got %v, %v", got, err)
			}
			strided := chunk.Selection{Start: []int64{0}, Count: []int64{3}, Stride: []int64{1 << 58}}
			if got, err := dataset.Get[int32](t.Context(), v, strided); err != nil || !slices.Equal(got, []int32{7, 7, 7}) {
				t.Errorf("strided: want [7 7 7], got %v, %v", got, err)
			}
		})
	}
}

// Both ends of an unlimited dimension of the maximum length can be read, even if the
// length is not a multiple of the chunk length.
func TestLongestDimension(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "l", map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		".zattrs":   `{"_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dimensions": {"t": {"size": 9223372036854775807, "unlimited": 1}}, "arrays": ["v"], "groups": []}}`,
		"v/.zarray": `{"shape": [1], "chunks": [1000], ` + i4 + `}`,
		"v/.zattrs": `{"_nczarr_array": {"dimension_references": ["/t"], "storage": "chunked"}}`,
	})
	ds := open(t, "mem:l#mode=nczarr", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	v := variable(t, ds, "v")
	n := v.Shape()[0]
	for _, sel := range []chunk.Selection{slab(n-3, 3), slab(n-1, 1), {Start: []int64{0}, Count: []int64{2}, Stride: []int64{n - 1}}} {
		got, err := dataset.Get[int32](t.Context(), v, sel)
		if err != nil || slices.ContainsFunc(got, func(k int32) bool { return k != 7 }) {
			t.Errorf("%v: want only values of 7, got %v, %v", sel, got, err)
		}
	}
	if _, err := dataset.Get[int32](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("all of it: want ErrLimit, got %v", err)
	}
}

// A write fails if the resulting array would be too large to open again.
func TestGrowthStaysReadable(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:big", o)
	time, x := dim(t, ds.Root(), "time", 0, true), dim(t, ds.Root(), "x", 1<<20, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time}})
	define(t, ds.Root(), "wide", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{time, x}, Chunks: []int64{1, 1}})
	for _, at := range []int64{1 << 42, 1 << 50, math.MaxInt64 - 1} {
		if err := v.Write(t.Context(), slab(at, 1), []int32{1}); !errors.Is(err, ncerr.ErrLimit) {
			t.Errorf("growing to %d: want ErrLimit, got %v", at, err)
		}
	}
	write(t, v, slab(1<<30, 1), []int32{1})
	huge := dim(t, ds.Root(), "huge", 1<<50, false)
	if _, err := ds.Root().DefineVar(t.Context(), "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{huge, x}, Chunks: []int64{1, 1}}); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit, got %v", err)
	}
	closeDataset(t, ds)
	ds = open(t, "mem:big", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
	if got, err := dataset.Get[int32](t.Context(), variable(t, ds, "v"), slab(1<<30, 1)); err != nil || got[0] != 1 {
		t.Errorf("last element: want [1], got %v, %v", got, err)
	}
}

const superblock = `"_nczarr_superblock": {"version": "2.0.0"}`

// Open reports missing nodes, invalid names and duplicate dimensions in lists of
// contents, and names that belong to both a variable and a group.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group string // _nczarr_group of the root
		paths []string
	}{
		"missing":      {`{"dimensions": {}, "arrays": ["ok", "gone"], "groups": ["away"]}`, []string{"/away", "/gone"}},
		"var as group": {`{"dimensions": {}, "arrays": ["ok", "g"], "groups": ["g"]}`, []string{"/g"}},
		"group as var": {`{"dimensions": {}, "arrays": ["ok"], "groups": ["g", "ok"]}`, []string{"/ok"}},
		"key names":    {`{"dimensions": {}, "arrays": ["ok", "../x", "a/b", ".", "", "\u0001", "\u0085"], "groups": [".."]}`, append(slices.Repeat([]string{"/"}, 6), "/\u0085")},
		"dims twice":   {`{"dimensions": {"x": 1, "x": 2}, "arrays": ["ok"], "groups": []}`, []string{"/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			store(t, o, "lists", map[string]string{
				".zgroup": `{"zarr_format": 2}`, ".zattrs": `{` + superblock + `, "_nczarr_group": ` + c.group + `}`,
				"ok/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`,
				"g/.zgroup":  `{"zarr_format": 2}`, "g/.zattrs": `{"_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}}`,
			})
			ds := open(t, "mem:lists#mode=nczarr", o)
			var paths []string
			for _, p := range ds.Problems() {
				paths = append(paths, p.Path)
			}
			if name == "dims twice" && len(paths) == 0 {
				return // the last one wins, as usual in JSON
			}
			if !slices.Equal(paths, c.paths) {
				t.Errorf("want problems of %q, got %v", c.paths, ds.Problems())
			}
			if name != "group as var" {
				expect(t, ds, "ok", []int32{7})
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	o := memory()
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("v%d", i)
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": `{` + superblock + `, "_nczarr_group": {"dimensions": {}, "groups": [], "arrays": ` + string(list) + `}}`}
	store(t, o, "many", objects)
	var gets atomic.Int64
	o.Wrap = func(m driver.Map) driver.Map { return counter{Map: m, get: func() { gets.Add(1) }, list: func() {}} }
	o.Limits.MaxNodes = 4999
	if _, err := openURL(t.Context(), "mem:many#mode=nczarr", o); !errors.Is(err, ncerr.ErrLimit) || gets.Load() > 100 {
		t.Errorf("nodes: want ErrLimit, got %v after %d requests", err, gets.Load())
	}
	o.Wrap, o.Limits = nil, dataset.Limits{MaxDepth: 5}
	deep := map[string]string{}
	for i := range 7 {
		deep[strings.Repeat("g/", i)+".zgroup"] = `{"zarr_format": 2}`
	}
	store(t, o, "deep", deep)
	if _, err := openURL(t.Context(), "mem:deep#mode=zarr", o); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("depth: want ErrLimit, got %v", err)
	}
	o.Limits = dataset.Limits{MaxMetadata: 500}
	store(t, o, "long", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "ok/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`,
		"v/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`, "v/.zattrs": `{"a": "` + strings.Repeat("x", 500) + `"}`,
	})
	ds := open(t, "mem:long#mode=zarr", o)
	if p := ds.Problems(); len(p) != 1 || p[0].Path != "/v" || !errors.Is(p[0].Err, ncerr.ErrLimit) {
		t.Errorf("document: want one problem of /v, got %v", p)
	}
	expect(t, ds, "ok", []int32{7})
}

// A variable is left out if the store refuses to return its document. A store failure
// that may be temporary fails the whole Open.
func TestRefusedDocument(t *testing.T) {
	t.Parallel()
	for kind, whole := range map[ncerr.Kind]bool{ncerr.ErrPermission: false, ncerr.ErrCorrupt: false, ncerr.ErrIO: true, ncerr.ErrPlugin: true} {
		o := memory()
		store(t, o, "r", map[string]string{
			".zgroup": `{"zarr_format": 2}`, "ok/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`,
			"v/.zarray": `{"shape": [1], "chunks": [1], ` + i4 + `}`,
		})
		o.Wrap = func(m driver.Map) driver.Map {
			return faulty{m, func(key string) error {
				if key == "v/.zattrs" {
					return kind
				}
				return nil
			}}
		}
		ds, err := openURL(t.Context(), "mem:r#mode=zarr", o)
		if whole {
			if !errors.Is(err, kind) {
				t.Errorf("want an error of kind %v, got %v", kind, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p := ds.Problems(); len(p) != 1 || p[0].Path != "/v" || !errors.Is(p[0].Err, kind) {
			t.Errorf("want one problem of kind %v, got %v", kind, p)
		}
		expect(t, ds, "ok", []int32{7})
		closeDataset(t, ds)
	}
}

// A small dataset takes little memory to open, whatever its content.
func TestSmallDatasetTakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures memory
	o := inMemory()
	store(t, o, "small", map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		"v/.zarray": `{"shape": [1152921504606846976], "chunks": [500000000], ` + i4 + `}`,
		"s/.zarray": strings.Replace(`{"shape": [1000000000], "chunks": [1], `+i4+`}`, `"<i4"`, `"|S2000000000"`, 1),
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ds := open(t, "mem:small#mode=zarr", o)
	v := variable(t, ds, "v")
	if _, err := dataset.Get[int32](t.Context(), v, slab(1<<40, 10)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// absent is a registry that has no filters while *there is false.
type absent struct {
	registry.Registry
	there *bool
}

func (a absent) Filter(id string) (codecdriver.Provider, error) {
	if !*a.there {
		return nil, ncerr.New(ncerr.ErrPlugin, "find filter", id, nil)
	}
	return a.Registry.Filter(id)
}

// A codec that could not be opened is tried again by the next read.
func TestCodecComesLater(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds := create(t, "mem:late", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
	write(t, v, v.All(), []int32{3})
	closeDataset(t, ds)
	there := false
	o.Registry = absent{o.Registry, &there}
	ds = open(t, "mem:late", o)
	v = variable(t, ds, "v")
	if err := v.Available(t.Context()); !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("want ErrPlugin, got %v", err)
	}
	there = true
	expect(t, ds, "v", []int32{3})
}

// roomy encodes like invert but declares a smaller maximum size than other encoders may
// need.
type roomy struct{ invert }

func (roomy) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "roomy", Encode: true, Decode: true}}
}

func (roomy) Open(string, json.RawMessage, codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return roomy{}, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 5}, nil
}

func (r roomy) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return r.invert.Decode(ctx, dst, src[:min(len(src), len(dst)+1)])
}

// A chunk written by an encoder that needs slightly more space than declared can be
// read.
func TestLargerEncodedChunk(t *testing.T) {
	t.Parallel()
	o := memory(roomy{})
	ds := create(t, "mem:room", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Codecs: []zarr.CodecSpec{{ID: "roomy"}}})
	write(t, v, v.All(), []int32{3})
	body, _, err := ds.Map().ReadAll(t.Context(), "v/0", 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes(append(body, make([]byte, 40)...)), nil); err != nil {
		t.Fatal(err)
	}
	expect(t, ds, "v", []int32{3})
	if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes(make([]byte, 10000)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Get[int32](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrCorrupt) {
		t.Errorf("want ErrCorrupt for a much larger chunk, got %v", err)
	}
	closeDataset(t, ds)
}

// Only 0 and 1 are valid bools, whatever the slice type.
func TestBools(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "b", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/0": "\x00\x01",
		"v/.zarray": `{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|b1", "compressor": null, "filters": null, "fill_value": false, "order": "C"}`,
	})
	ds := update(t, "mem:b#mode=zarr", o)
	v := variable(t, ds, "v")
	expect(t, ds, "v", []uint8{0, 1})
	for _, bad := range []any{[]uint8{7, 1}, []int32{7, 1}, []float64{.5, 0}} {
		if err := v.Write(t.Context(), v.All(), bad); !errors.Is(err, ncerr.ErrConvert) {
			t.Errorf("%T: want ErrConvert, got %v", bad, err)
		}
	}
	write(t, v, slab(0, 1), []uint8{1})
	expect(t, ds, "v", []int32{1, 1})
	if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes("\x02\x01"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Get[uint8](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrConvert) {
		t.Errorf("a stored 2: want ErrConvert, got %v", err)
	}
	closeDataset(t, ds)
}

// The limits on the elements of a chunk and on the keys of a listing are enforced. The
// error for a chunk includes the limit.
func TestCountsAreLimited(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "c", map[string]string{".zgroup": `{"zarr_format": 2}`, "few/.zarray": document("|i1", "0", "C", "null"), "many/.zarray": strings.ReplaceAll(document("|i1", "0", "C", "null"), "[2]", "[5]")})
	small := *o
	small.Limits.MaxElements = 4
	ds := open(t, "mem:c#mode=zarr", &small)
	if p := ds.Problems(); len(p) != 1 || p[0].Path != "/many" || !errors.Is(p[0].Err, ncerr.ErrLimit) || !strings.Contains(p[0].Err.Error(), "5 elements, but the limit is 4") {
		t.Errorf("want the larger array refused, got %v", p)
	}
	small.Limits.MaxKeys = 1
	if _, err := openURL(t.Context(), "mem:c#mode=zarr", &small); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("a listing of two names where one is the limit: want ErrLimit, got %v", err)
	}
}

// The work for one name with many segments in consolidated metadata is limited by the
// nesting depth of groups.
func TestLongConsolidatedName(t *testing.T) { //nolint:paralleltest // it measures memory
	// Not parallel: allocations of other tests would be counted as well.
	o := memory()
	o.UseConsolidated = dataset.ConsolidatedTrust
	o.Limits.MaxDepth = 5
	const segments = 20_000
	store(t, o, "long", map[string]string{".zmetadata": `{"metadata": {".zgroup": {"zarr_format": 2}, "` + strings.Repeat("a/", segments) +
		`.zgroup": {"zarr_format": 2}}, "zarr_consolidated_format": 1}`})
	var problems []dataset.Problem
	allocs := testing.AllocsPerRun(1, func() { problems = open(t, "mem:long#mode=zarr", o).Problems() })
	if len(problems) != 1 || !errors.Is(problems[0].Err, ncerr.ErrLimit) {
		t.Errorf("want one problem of kind ErrLimit, got %v", problems)
	}
	if allocs > segments/2 {
		t.Errorf("opening made %.0f allocations", allocs)
	}
}

// Nodes in consolidated metadata are refused if their keys are longer than a store
// allows.
func TestLongConsolidatedKey(t *testing.T) {
	t.Parallel()
	o := memory()
	o.UseConsolidated = dataset.ConsolidatedTrust
	for length, want := range map[int]int{1<<16 - 1: 0, 1 << 16: 1} {
		key := strings.Repeat("a", length/2) + "/" + strings.Repeat("b", length-length/2-1)
		store(t, o, "long", map[string]string{".zmetadata": `{"metadata": {".zgroup": {"zarr_format": 2}, "` + key + `/.zgroup": {"zarr_format": 2}}, "zarr_consolidated_format": 1}`})
		problems := open(t, "mem:long#mode=zarr", o).Problems()
		if len(problems) != want || want > 0 && !errors.Is(problems[0].Err, ncerr.ErrLimit) {
			t.Errorf("a key of %d bytes: want %d problems of kind ErrLimit, got %.300v", length, want, problems)
		}
	}
}
