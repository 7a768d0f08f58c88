package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// invert is a test codec that inverts all bits and prepends a byte, so that encoded and
// decoded bytes differ in content and length.
type invert struct{}

func (invert) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "invert", Encode: true, Decode: true}}
}

func (invert) Open(_ string, _ json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return invert{}, codecdriver.Spec{Kind: codecdriver.Blob, DType: in.DType, MaxBytes: in.MaxBytes + 1}, nil
}

func (invert) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < len(src)+1 {
		return 0, codecdriver.ShortBuffer("encode", len(dst))
	}
	dst[0] = 0x5A
	for i, b := range src {
		dst[i+1] = ^b
	}
	return len(src) + 1, nil
}

func (invert) Decode(_ context.Context, dst, src []byte) (int, error) {
	if len(src) == 0 || src[0] != 0x5A {
		return 0, ncerr.New(ncerr.ErrCorrupt, "", "", errors.New("bad first byte"))
	}
	if len(dst) < len(src)-1 {
		return 0, codecdriver.ShortBuffer("decode", len(dst))
	}
	for i, b := range src[1:] {
		dst[i] = ^b
	}
	return len(src) - 1, nil
}

// model is a plain array that reads and writes slabs with simple loops. It is the
// oracle for other tests.
type model struct {
	shape []int64
	data  []int32
}

func newModel(shape []int64, fill int32) *model {
	m := &model{shape: shape, data: make([]int32, chunk.All(shape).Len())}
	for i := range m.data {
		m.data[i] = fill
	}
	return m
}

// each calls f with the offset of every selected element, in C order.
func (m *model) each(sel chunk.Selection, f func(at int64)) {
	idx := make([]int64, len(m.shape))
	for n := range sel.Len() {
		at := int64(0)
		rest := n
		for d := len(idx) - 1; d >= 0; d-- {
			idx[d] = rest % sel.Count[d]
			rest /= sel.Count[d]
		}
		for d := range idx {
			step := int64(1)
			if sel.Stride != nil {
				step = sel.Stride[d]
			}
			at = at*m.shape[d] + sel.Start[d] + idx[d]*step
		}
		f(at)
	}
}

func drawSelection(t *rapid.T, shape []int64) chunk.Selection {
	sel := chunk.Selection{Stride: make([]int64, len(shape))}
	for d, n := range shape {
		start := rapid.Int64Range(0, n-1).Draw(t, "start")
		sel.Stride[d] = rapid.Int64Range(1, 3).Draw(t, "stride")
		sel.Start = append(sel.Start, start)
		sel.Count = append(sel.Count, rapid.Int64Range(0, (n-1-start)/sel.Stride[d]+1).Draw(t, "count"))
	}
	return sel
}

// Random slabs are written and read and compared with the model, for various ranks,
// chunk shapes, byte orders, codecs, strides and numbers of workers.
func TestSlabsAgainstModel(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		o := memory(invert{})
		o.Workers = rapid.IntRange(1, 4).Draw(rt, "workers")
		o.MergeGap = rapid.SampledFrom([]int64{0, 1, 4, 8, 20, 40}).Draw(rt, "gap")
		o.ChunkCache = rapid.SampledFrom([]int64{0, -1, 40, 400}).Draw(rt, "cache")
		ds, err := createURL(ctx, "mem:m", &dataset.CreateOptions{Options: *o})
		if err != nil {
			rt.Fatal(err)
		}
		spec := &dataset.VarSpec{Type: dtype.NCInt, Fill: []int32{-9}, Order: rapid.SampledFrom([]dtype.Order{dtype.Little, dtype.Big}).Draw(rt, "order")}
		var shape []int64
		for d := range rapid.IntRange(0, 3).Draw(rt, "rank") {
			n := rapid.Int64Range(1, 9).Draw(rt, "len")
			dm, err := ds.Root().DefineDim(string(rune('a'+d)), n, false)
			if err != nil {
				rt.Fatal(err)
			}
			shape = append(shape, n)
			spec.Dims = append(spec.Dims, dm)
			spec.Chunks = append(spec.Chunks, rapid.Int64Range(1, 10).Draw(rt, "chunk"))
		}
		if rapid.Bool().Draw(rt, "codec") {
			spec.Codecs = []zarr.CodecSpec{{ID: "invert", Params: json.RawMessage(`{"id": "invert"}`)}}
		}
		v, err := ds.Root().DefineVar(ctx, "v", spec)
		if err != nil {
			rt.Fatal(err)
		}
		m := newModel(shape, -9)
		check := func(v *dataset.Var) {
			sel := drawSelection(rt, shape)
			var want []int32
			m.each(sel, func(at int64) { want = append(want, m.data[at]) })
			got, err := dataset.Get[int32](ctx, v, sel)
			if err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%+v: want %v, got %v", sel, want, got)
			}
		}
		for i := range rapid.IntRange(1, 5).Draw(rt, "writes") {
			sel := drawSelection(rt, shape)
			src := make([]int32, sel.Len())
			n := int32(1000 * (i + 1))
			k := 0
			m.each(sel, func(at int64) { m.data[at] = n; src[k] = n; n++; k++ })
			if err := v.Write(ctx, sel, src); err != nil {
				rt.Fatal(err)
			}
			for range rapid.IntRange(0, 3).Draw(rt, "reads") {
				check(v)
			}
		}
		if rapid.Bool().Draw(rt, "reopen") {
			if err := ds.Close(ctx); err != nil {
				rt.Fatal(err)
			}
			if ds, err = openURL(ctx, "mem:m", o); err != nil {
				rt.Fatal(err)
			}
			if v, err = ds.Root().Var("v"); err != nil {
				rt.Fatal(err)
			}
		}
		for range 3 {
			check(v)
		}
		wide, err := dataset.Get[float64](ctx, v, v.All())
		if err != nil || !slices.EqualFunc(wide, m.data, func(a float64, b int32) bool { return a == float64(b) }) {
			rt.Fatalf("as float64: want %v, got %v, %v", m.data, wide, err)
		}
	})
}

// Concurrent writers of distinct parts of the same chunks lose no data, even while
// readers read these chunks.
func TestConcurrentWritersShareChunks(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds := create(t, "mem:con", o)
	x := dim(t, ds.Root(), "x", 64, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{
		Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{16},
		Codecs: []zarr.CodecSpec{{ID: "invert"}},
	})
	var wg sync.WaitGroup
	for i := range int64(64) {
		wg.Go(func() {
			if err := v.Write(t.Context(), chunk.Selection{Start: []int64{i}, Count: []int64{1}}, []int32{int32(i)}); err != nil {
				t.Error(err)
			}
			if _, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := make([]int32, 64)
	for i := range want {
		want[i] = int32(i)
	}
	expect(t, ds, "v", want)
	closeDataset(t, ds)
}

// faulty is a store in which a read fails if fail returns an error for the key.
type faulty struct {
	driver.Map
	fail func(key string) error
}

func (f faulty) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := f.fail(key); err != nil {
		return nil, driver.Info{}, err
	}
	return f.Map.Get(ctx, key, o, alloc)
}

// A chunk that cannot be read causes an error with its key, and never reads as the fill
// value.
func TestFailedReadIsNoFill(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:f", o)
	x := dim(t, ds.Root(), "x", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
	write(t, v, v.All(), []int32{1, 2, 3, 4})
	closeDataset(t, ds)
	for name, cause := range map[string]error{
		"raw error":         errors.New("injected failure"),
		"not found deeper":  ncerr.New(ncerr.ErrIO, "", "", ncerr.ErrNotFound),
		"permission denied": ncerr.ErrPermission,
	} {
		o.Wrap = func(m driver.Map) driver.Map {
			return faulty{m, func(key string) error {
				if key == "v/1" {
					return cause
				}
				return nil
			}}
		}
		ds := open(t, "mem:f", o)
		v, err := ds.Root().Var("v")
		if err != nil {
			t.Fatal(err)
		}
		_, err = dataset.Get[int32](t.Context(), v, v.All())
		var e *ncerr.Error
		if !errors.As(err, &e) || e.Key != "v/1" && e.Key != "/v/1" || ncerr.KindOf(err) == ncerr.ErrNotFound {
			t.Errorf("%s: want an error that names v/1, got %v", name, err)
		}
		if got, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{0}, Count: []int64{2}}); err != nil || !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("%s: the other chunk: want [1 2], got %v, %v", name, got, err)
		}
	}
}

// Damaged chunks of every kind cause errors in whole and partial reads.
func TestDamagedChunks(t *testing.T) {
	t.Parallel()
	for _, coded := range []bool{false, true} {
		o := unbuffered(memory(invert{}))
		ds := create(t, "mem:d", o)
		x := dim(t, ds.Root(), "x", 8, false)
		spec := &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{8}}
		if coded {
			spec.Codecs = []zarr.CodecSpec{{ID: "invert"}}
		}
		v := define(t, ds.Root(), "v", spec)
		write(t, v, v.All(), []int32{1, 2, 3, 4, 5, 6, 7, 8})
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		body, _, err := ds.Map().ReadAll(t.Context(), "v/0", 100)
		if err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string][]byte{
			"empty": {}, "short": body[:len(body)-1], "long": append(slices.Clone(body), 1), "far too long": make([]byte, 1000),
		} {
			if _, err := ds.Map().Put(t.Context(), "v/0", driver.Bytes(bad), nil); err != nil {
				t.Fatal(err)
			}
			for _, sel := range []chunk.Selection{v.All(), {Start: []int64{2}, Count: []int64{3}}, {Start: []int64{0}, Count: []int64{4}, Stride: []int64{2}}} {
				if _, err := dataset.Get[int32](t.Context(), v, sel); !errors.Is(err, ncerr.ErrCorrupt) {
					t.Errorf("coded %t, %s, %+v: want ErrCorrupt, got %v", coded, name, sel, err)
				}
			}
			if err := v.Write(t.Context(), chunk.Selection{Start: []int64{1}, Count: []int64{1}}, []int32{9}); !errors.Is(err, ncerr.ErrCorrupt) {
				t.Errorf("coded %t, %s: a partial write of a damaged chunk: want ErrCorrupt, got %v", coded, name, err)
			}
		}
		closeDataset(t, ds)
	}
}

func TestCanceledReadSaysSo(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:x", o)
	x := dim(t, ds.Root(), "x", 100, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Read(ctx, v.All(), make([]int32, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: want Canceled, got %v", err)
	}
	if err := v.Write(ctx, v.All(), make([]int32, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("write: want Canceled, got %v", err)
	}
	closeDataset(t, ds)
}

// The number of allocations of a read does not grow with the number of chunks. Memory
// for keys is allocated in blocks of many keys.
func TestReadAllocatesNothingPerChunk(t *testing.T) { //nolint:paralleltest // it counts allocations
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, codecs := range [][]zarr.CodecSpec{nil, {{ID: "invert"}}} {
		allocs := func(n int64) float64 {
			o := inMemory(invert{})
			o.Workers = 1
			ds := create(t, "mem:alloc", o)
			defer closeDataset(t, ds)
			x := dim(t, ds.Root(), "x", n*64, false)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Chunks: []int64{64}, Codecs: codecs})
			buf := make([]float64, n*64)
			write(t, v, v.All(), buf)
			sel := v.All()
			return testing.AllocsPerRun(20, func() {
				if err := v.Read(t.Context(), sel, buf); err != nil {
					t.Error(err)
				}
			})
		}
		few, many := allocs(64), allocs(64*32)
		if perChunk := (many - few) / (64 * 31); perChunk > 0.02 {
			t.Errorf("codecs %v: %.3f allocations per additional chunk (%v for 64 chunks, %v for 2048)", codecs, perChunk, few, many)
		}
	}
}

// Reading a part of one chunk sends one request, and opening a dataset with NCZarr's
// lists sends no request for a listing.
func TestRequestCounts(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:count", o)
	x := dim(t, ds.Root(), "x", 100, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{10}})
	write(t, v, v.All(), make([]int32, 100))
	closeDataset(t, ds)
	var gets, lists int
	var mu sync.Mutex
	o.Wrap = func(m driver.Map) driver.Map {
		return counter{Map: m, get: func() { mu.Lock(); gets++; mu.Unlock() }, list: func() { mu.Lock(); lists++; mu.Unlock() }}
	}
	ds = open(t, "mem:count", o)
	if lists != 0 {
		t.Errorf("opening a dataset that lists its own contents made %d listings", lists)
	}
	v, err := ds.Root().Var("v")
	if err != nil {
		t.Fatal(err)
	}
	gets = 0
	if _, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{15}, Count: []int64{3}}); err != nil {
		t.Fatal(err)
	}
	if gets != 1 {
		t.Errorf("reading a part of one chunk: want 1 request, got %d", gets)
	}
}

type counter struct {
	driver.Map
	get, list func()
}

func (c counter) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	c.get()
	return c.Map.Get(ctx, key, o, alloc)
}

func (c counter) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	c.list()
	return c.Map.List(ctx, prefix, o)
}

// A variable that cannot be read is reported and left out. Writing the metadata of its
// group preserves the variable.
func TestUnreadableVariableIsKept(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:k", "mem:l#mode=nczarr,consolidated"} {
		o := memory()
		ds := create(t, url, o)
		x := dim(t, ds.Root(), "x", 2, false)
		for _, name := range []string{"a", "b", "c"} {
			define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
		}
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		damaged := driver.Bytes(`{"zarr_format": 2, "shape": [2]}`)
		if _, err := ds.Map().Put(t.Context(), "b/.zarray", damaged, nil); err != nil {
			t.Fatal(err)
		}
		if ds.Consolidated() { // damage the consolidated copy as well
			body, _, err := ds.Map().ReadAll(t.Context(), ".zmetadata", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			at := strings.Index(string(body), `"b/.zarray"`)
			body = []byte(string(body[:at]) + strings.Replace(string(body[at:]), `"chunks"`, `"chonks"`, 1))
			if _, err := ds.Map().Put(t.Context(), ".zmetadata", driver.Bytes(body), nil); err != nil {
				t.Fatal(err)
			}
		}
		closeDataset(t, ds)
		o.Update = true
		ds = open(t, url, o)
		if p := ds.Problems(); len(p) != 1 || p[0].Path != "/b" || !errors.Is(p[0].Err, ncerr.ErrMetadata) {
			t.Fatalf("%s: want one problem of /b, got %v", url, p)
		}
		if err := ds.Root().SetAttr(dataset.Attr{Name: "new", Type: dtype.NCInt, Value: []int32{1}}); err != nil {
			t.Fatal(err)
		}
		if _, err := ds.Root().DefineVar(t.Context(), "b", &dataset.VarSpec{Type: dtype.NCInt}); !errors.Is(err, ncerr.ErrNameInUse) {
			t.Errorf("%s: want ErrNameInUse for the name of an unreadable variable, got %v", url, err)
		}
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Update = false
		again := open(t, url, o)
		if p := again.Problems(); len(p) != 1 || p[0].Path != "/b" {
			t.Errorf("%s: after writing the metadata again: want one problem of /b, got %v", url, p)
		}
		if _, err := again.Root().Var("c"); err != nil {
			t.Errorf("%s: another variable: %v", url, err)
		}
	}
}

// The bits of every NaN are preserved.
func TestNaNPayloadSurvives(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:nan", o)
	x := dim(t, ds.Root(), "x", 2, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Order: dtype.Big})
	want := []float64{math.Float64frombits(0x7FF8DEADBEEF0001), math.Float64frombits(0xFFF0000000000001)}
	write(t, v, v.All(), want)
	got, err := dataset.Get[float64](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("want %x, got %x", math.Float64bits(want[i]), math.Float64bits(got[i]))
		}
	}
	closeDataset(t, ds)
}
