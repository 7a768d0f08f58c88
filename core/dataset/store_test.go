package dataset_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Random slabs of arrays in F order and either byte order are written and read through
// narrower and wider types and compared with the model. The stored bytes have the order
// that NumPy uses.
func TestFOrderAgainstModel(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(rt *rapid.T) {
		big := rapid.Bool().Draw(rt, "big")
		codec := rapid.SampledFrom([]string{"null", `[{"id": "invert"}]`}).Draw(rt, "codec")
		var shape, chunks []int64
		for range rapid.IntRange(1, 4).Draw(rt, "rank") {
			shape = append(shape, rapid.Int64Range(1, 5).Draw(rt, "len"))
			chunks = append(chunks, rapid.Int64Range(1, 6).Draw(rt, "chunk"))
		}
		list := func(n []int64) string { return strings.ReplaceAll(fmt.Sprint(n), " ", ", ") }
		o := memory(invert{})
		o.Workers = rapid.IntRange(1, 3).Draw(rt, "workers")
		o.MergeGap = rapid.SampledFrom([]int64{0, 1, 4, 8, 20}).Draw(rt, "gap")
		dt := map[bool]string{false: "<i4", true: ">i4"}[big]
		store(t, o, "f", map[string]string{
			".zgroup":   `{"zarr_format": 2}`,
			"v/.zarray": `{"zarr_format": 2, "shape": ` + list(shape) + `, "chunks": ` + list(chunks) + `, "dtype": "` + dt + `", "fill_value": -9, "order": "F", "compressor": null, "filters": ` + codec + `}`,
		})
		ds := update(t, "mem:f#mode=zarr", o)
		v := variable(t, ds, "v")
		m := newModel(shape, -9)
		for i := range rapid.IntRange(1, 4).Draw(rt, "writes") {
			sel := drawSelection(rt, shape)
			src := make([]float64, sel.Len())
			k := 0
			m.each(sel, func(at int64) { m.data[at] = int32(100*i + k); src[k] = float64(m.data[at]); k++ })
			if err := v.Write(t.Context(), sel, src); err != nil {
				rt.Fatal(err)
			}
		}
		sel := drawSelection(rt, shape)
		var want []int16
		m.each(sel, func(at int64) { want = append(want, int16(m.data[at])) })
		got, err := dataset.Get[int16](t.Context(), v, sel)
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("%+v: want %v, got %v, %v", sel, want, got, err)
		}
		if err := ds.Flush(context.Background()); err != nil { // stores parts of chunks that are in the buffer
			rt.Fatal(err)
		}
		if codec == "null" {
			checkFChunk(rt, ds, m, shape, chunks, big)
		}
		closeDataset(t, ds)
	})
}

// checkFChunk compares the bytes of the first chunk with the model.
func checkFChunk(rt *rapid.T, ds *dataset.Dataset, m *model, shape, chunks []int64, big bool) {
	key := "v/" + strings.TrimSuffix(strings.Repeat("0.", len(shape)), ".")
	body, _, err := ds.Map().ReadAll(context.Background(), key, 0) // rapid's T has no context
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	for k := range len(body) / 4 {
		at, inside, rest := int64(0), true, int64(k)
		index := make([]int64, len(shape))
		for d := range shape { // F order: the first dimension varies fastest
			index[d] = rest % chunks[d]
			rest /= chunks[d]
			inside = inside && index[d] < shape[d]
		}
		for d := range shape {
			at = at*shape[d] + index[d]
		}
		if got := int32(order.Uint32(body[4*k:])); inside && got != m.data[at] {
			rt.Fatalf("byte %d of the chunk: want %d, got %d", 4*k, m.data[at], got)
		}
	}
}

// Partial and strided writes of every netCDF type preserve elements outside the
// selection, and elements that were never written read as the fill value.
func TestPartialWritesOfEveryType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec        dataset.VarSpec
		two         any
		wantStrided any
	}{
		"big double":   {dataset.VarSpec{Type: dtype.NCDouble, Order: dtype.Big, Fill: []float64{math.Inf(-1)}}, []float64{1, 2}, []float64{math.Inf(-1), 1, math.Inf(-1), 2, math.Inf(-1)}},
		"big ushort":   {dataset.VarSpec{Type: dtype.NCUShort, Order: dtype.Big, Fill: []uint16{258}}, []uint16{1, 2}, []uint16{258, 1, 258, 2, 258}},
		"null fill":    {dataset.VarSpec{Type: dtype.NCInt, NoFill: true}, []int32{1, 2}, []int32{0, 1, 0, 2, 0}},
		"char":         {dataset.VarSpec{Type: dtype.NCChar, Fill: "_"}, []uint8("ab"), []uint8("_a_b_")},
		"string":       {dataset.VarSpec{Type: dtype.NCString, MaxStrLen: 3, Fill: []string{"--"}}, []string{"abc", ""}, []string{"--", "abc", "--", "", "--"}},
		"byte":         {dataset.VarSpec{Type: dtype.NCByte}, []int8{1, -2}, []int8{-127, 1, -127, -2, -127}},
		"uint64":       {dataset.VarSpec{Type: dtype.NCUInt64, Order: dtype.Big}, []uint64{1, 1 << 63}, []uint64{18446744073709551614, 1, 18446744073709551614, 1 << 63, 18446744073709551614}},
		"with a codec": {dataset.VarSpec{Type: dtype.NCInt64, Codecs: []zarr.CodecSpec{{ID: "invert"}}, Fill: []int64{9}}, []int64{1, 2}, []int64{9, 1, 9, 2, 9}},
	} {
		for _, url := range []string{"mem:p#mode=nczarr", "mem:p#mode=zarr", "mem:p#mode=v3"} {
			o := memory(invert{})
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "x", 5, false)
			spec := c.spec
			spec.Dims, spec.Chunks = []*dataset.Dim{x}, []int64{3}
			v := define(t, ds.Root(), "v", &spec)
			write(t, v, chunk.Selection{Start: []int64{1}, Count: []int64{2}, Stride: []int64{2}}, c.two)
			closeDataset(t, ds)
			v = variable(t, open(t, url, o), "v")
			got := v.NewSlice(5)
			if err := v.Read(t.Context(), v.All(), got); err != nil || fmt.Sprint(got) != fmt.Sprint(c.wantStrided) {
				t.Errorf("%s, %s: want %v, got %v, %v", name, url, c.wantStrided, got, err)
			}
		}
	}
}

// A NaN fill value is preserved in absent chunks and in unwritten elements of existing
// ones.
func TestNaNFill(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:n", o)
	x := dim(t, ds.Root(), "x", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCFloat, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Order: dtype.Big, Fill: []float32{float32(math.NaN())}})
	write(t, v, slab(1, 1), []float32{5})
	closeDataset(t, ds)
	v = variable(t, open(t, "mem:n", o), "v")
	got, err := dataset.Get[float64](t.Context(), v, v.All())
	if err != nil || fmt.Sprint(got) != "[NaN 5 NaN NaN]" {
		t.Errorf("want [NaN 5 NaN NaN], got %v, %v", got, err)
	}
}

// A write with a value that cannot be converted writes nothing, for any number of
// pieces, and does not extend a dimension.
func TestFailedConversionWritesNothing(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:cv", o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 16}})
	src := make([]int32, 5<<20)
	src[len(src)-1] = 1 << 20
	if err := v.Write(t.Context(), slab(0, int64(len(src))), src); !errors.Is(err, ncerr.ErrConvert) {
		t.Errorf("want ErrConvert, got %v", err)
	}
	if names, err := ds.Map().Search(t.Context(), "v"); err != nil || len(names) > 0 || x.Len() != 0 {
		t.Errorf("want no chunks and length 0, got %q, %v, length %d", names, err, x.Len())
	}
	closeDataset(t, ds)
}

// Slabs larger than one conversion piece are read with strides. A read fails if a value
// cannot be converted.
func TestConversionInPieces(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:pc", o)
	y, x := dim(t, ds.Root(), "y", 3000, false), dim(t, ds.Root(), "x", 1000, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{70, 900}})
	all := make([]int32, 3000*1000)
	for i := range all {
		all[i] = int32(i)
	}
	write(t, v, v.All(), all)
	sel := chunk.Selection{Start: []int64{1, 2}, Count: []int64{1499, 998}, Stride: []int64{2, 1}}
	got, err := dataset.Get[float64](t.Context(), v, sel)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		row, col := 1+2*(i/998), 2+i%998
		if want := float64(row*1000 + col); g != want {
			t.Fatalf("element %d: want %v, got %v", i, want, g)
		}
	}
	if _, err := dataset.Get[uint16](t.Context(), v, sel); !errors.Is(err, ncerr.ErrConvert) {
		t.Errorf("want ErrConvert, got %v", err)
	}
	closeDataset(t, ds)
}

// badGet is a store whose Get violates its contract. how selects the violation.
type badGet struct {
	driver.Map
	how string
}

func (l badGet) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if !strings.HasPrefix(key, "v/0") {
		return l.Map.Get(ctx, key, o, alloc)
	}
	switch l.how {
	case "short":
		p, err := alloc(7)
		return p, driver.Info{Size: 16}, err
	case "less than asked for":
		p, err := alloc(16)
		return p[:min(8, len(p))], driver.Info{Size: 16}, err
	case "own memory":
		if _, err := alloc(16); err != nil {
			return nil, driver.Info{}, err
		}
		return make([]byte, 16), driver.Info{Size: 16}, nil
	case "no memory":
		return make([]byte, 16), driver.Info{Size: 16}, nil
	case "huge":
		p, err := alloc(1 << 50)
		return p, driver.Info{Size: 1 << 50}, err
	case "negative":
		p, err := alloc(-1)
		return p, driver.Info{Size: -1}, err
	case "error after memory":
		p, _ := alloc(16)
		return p, driver.Info{Size: 16}, errInjected
	case "another key":
		return nil, driver.Info{}, ncerr.New(ncerr.ErrNotFound, "get", "w/0", nil)
	case "wrapped deep":
		return nil, driver.Info{}, fmt.Errorf("open: %w", &ncerr.Error{Kind: ncerr.ErrIO, Err: ncerr.ErrNotFound})
	case "joined":
		return nil, driver.Info{}, errors.Join(errInjected, ncerr.ErrNotFound)
	case "its own deadline":
		return nil, driver.Info{}, context.DeadlineExceeded
	}
	return nil, driver.Info{}, errors.New("unknown violation")
}

// A Map that breaks its contract causes an error that contains the key. The read never
// returns a value or the fill value.
func TestContractViolations(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"short", "less than asked for", "own memory", "no memory", "huge", "negative", "error after memory", "another key", "wrapped deep", "joined", "its own deadline"} {
		for _, codecs := range [][]zarr.CodecSpec{nil, {{ID: "invert"}}} {
			o := unbuffered(memory(invert{}))
			ds := create(t, "mem:liar", o)
			x := dim(t, ds.Root(), "x", 4, false)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Codecs: codecs})
			write(t, v, v.All(), []int32{1, 2, 3, 4})
			closeDataset(t, ds)
			o.Wrap = func(m driver.Map) driver.Map { return badGet{m, how} }
			ds = update(t, "mem:liar", o)
			v = variable(t, ds, "v")
			for _, sel := range []chunk.Selection{v.All(), slab(1, 2)} {
				got, err := dataset.Get[int32](t.Context(), v, sel)
				if err == nil || !strings.Contains(err.Error(), "v/0") || ncerr.KindOf(err) == ncerr.ErrNotFound {
					t.Errorf("%s, %v: want an error for v/0, got %v, %v", how, codecs, got, err)
				}
			}
			if err := v.Write(t.Context(), slab(0, 1), []int32{9}); err == nil {
				t.Errorf("%s, %v: a part of a chunk was written although its rest was not read", how, codecs)
			}
			closeDataset(t, ds)
			o.Wrap = nil
			expect(t, open(t, "mem:liar", o), "v", []int32{1, 2, 3, 4})
		}
	}
}

// stuck is a store whose reads of chunks block until the context is done.
type stuck struct {
	driver.Map
	entered chan struct{}
}

func (s stuck) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if strings.HasPrefix(key, "v/") && !strings.HasPrefix(key, "v/.z") {
		select {
		case s.entered <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return nil, driver.Info{}, ctx.Err()
	}
	return s.Map.Get(ctx, key, o, alloc)
}

// A read that is canceled midway returns the caller's error and leaves no goroutine
// behind.
func TestCancelInTheMiddle(t *testing.T) { //nolint:paralleltest // it counts goroutines
	o := inMemory() // connections of other stores have goroutines as well
	o.Workers = 4
	ds := create(t, "mem:st", o)
	x := dim(t, ds.Root(), "x", 100, false)
	define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	closeDataset(t, ds)
	entered := make(chan struct{}, 1)
	o.Wrap = func(m driver.Map) driver.Map { return stuck{m, entered} }
	ds = update(t, "mem:st", o)
	v := variable(t, ds, "v")
	before := runtime.NumGoroutine()
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		if err := v.Read(ctx, v.All(), make([]int32, 100)); !errors.Is(err, context.Canceled) || ncerr.KindOf(err) != 0 {
			t.Errorf("want the bare context error, got %v", err)
		}
		cancel()
	}
	n := runtime.NumGoroutine()
	for end := time.Now().Add(time.Minute); n > before && time.Now().Before(end); n = runtime.NumGoroutine() {
		time.Sleep(time.Millisecond)
	}
	if n > before {
		t.Errorf("the number of goroutines grew from %d to %d", before, n)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
}
