package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// TestLongFill checks that elements of absent chunks share a long fill value.
func TestLongFill(t *testing.T) { //nolint:paralleltest // not parallel: it counts allocations
	o := inMemory(vlen.Provider())
	fill := strings.Repeat("f", 100_000)
	a := array("|O", 1000)
	a["chunks"], a["fill_value"], a["filters"] = []int{1}, fill, []jsonObject{{"id": "vlen-utf8"}}
	store(t, o, "fill", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": text(t, a)})
	v := variable(t, open(t, "mem:fill#mode=zarr", o), "v")
	n := allocated(func() {
		got, err := dataset.Get[string](t.Context(), v, v.All())
		if err != nil || got[0] != fill || got[999] != fill {
			t.Errorf("the values differ from the fill value, %v", err)
		}
	})
	if n > 16<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// TestTextOfManyChunks checks that the total size of the strings of one read is limited,
// because small chunks could otherwise expand to any amount of memory. ReadParts and Copy
// must read such strings in several parts.
func TestTextOfManyChunks(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	ds := create(t, "mem:text#mode=zarr", o)
	x, y := dim(t, ds.Root(), "x", 3, false), dim(t, ds.Root(), "y", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: 12, Dims: []*dataset.Dim{x, y}, Chunks: []int64{2, 1}})
	want := make([]string, 12)
	for i := range want {
		want[i] = strings.Repeat(string(rune('a'+i)), 40)
	}
	write(t, v, v.All(), want)
	closeDataset(t, ds)
	o.Limits.MaxChunk = 100
	ds = open(t, "mem:text#mode=zarr", o)
	v = variable(t, ds, "v")
	if _, err := dataset.Get[string](t.Context(), v, v.All()); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("one read: want ErrLimit, got %v", err)
	}
	strided := chunk.Selection{Start: []int64{0, 1}, Count: []int64{2, 2}, Stride: []int64{2, 2}}
	for name, c := range map[string]struct {
		sel  chunk.Selection
		want []string
	}{"all": {v.All(), want}, "strided": {strided, []string{want[1], want[3], want[9], want[11]}}} {
		var got []string
		err := v.ReadParts(t.Context(), c.sel, func(_ chunk.Selection, part any) error {
			got = append(got, part.([]string)...)
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: texts %q, error %v", name, got, err)
		}
	}
	end := errors.New("end")
	if err := v.ReadParts(t.Context(), v.All(), func(chunk.Selection, any) error { return end }); !errors.Is(err, end) {
		t.Errorf("want the error of the function, got %v", err)
	}
	for _, how := range []dataset.StringStorage{dataset.StringsVarLen, dataset.StringsFixed} {
		made := copyStrings(t, ds, fmt.Sprintf("mem:copy%d#mode=zarr", how), o, how)
		var got []string
		err := variable(t, made, "v").ReadParts(t.Context(), v.All(), func(_ chunk.Selection, part any) error {
			got = append(got, part.([]string)...)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("copy: got %q, %v", got, err)
		}
	}
}

// decoderCount is a filter that counts its concurrent decoders.
type decoderCount struct {
	invert
	now, most *atomic.Int64
}

func (c decoderCount) Open(string, json.RawMessage, codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return c, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 1 << 12}, nil
}

func (c decoderCount) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	for range 100 {
		runtime.Gosched()
	}
	defer c.now.Add(-1)
	return c.invert.Decode(ctx, dst, src)
}

// TestLargeChunksOneByOne checks that all workers together decode no more chunks than the
// budget has memory for, regardless of the number of cores.
func TestLargeChunksOneByOne(t *testing.T) { //nolint:paralleltest // not parallel: it sets the number of processors
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	c := decoderCount{now: new(atomic.Int64), most: new(atomic.Int64)}
	o := inMemory(c)
	ds := create(t, "mem:crowd", o)
	x := dim(t, ds.Root(), "x", 64, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: 4, Dims: []*dataset.Dim{x}, Chunks: []int64{4}, Codecs: []zarr.CodecSpec{{ID: "invert"}}})
	write(t, v, v.All(), make([]int32, 64))
	closeDataset(t, ds)
	const chunkBytes = 16 + 1<<12 + 1<<8 + 4096 // decoded, and as large as the stored chunk can be
	for _, most := range []int64{1, 3} {
		c.most.Store(0)
		o.Budget = budget.New(most * chunkBytes * 8 / 5)
		v = variable(t, open(t, "mem:crowd", o), "v")
		if _, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || c.most.Load() > most {
			t.Errorf("%d concurrent chunks, want at most %d; %v", c.most.Load(), most, err)
		}
	}
}

// TestDefaultChunksOfLongDimensions checks that default chunks are never large,
// although a document of 100 bytes can declare any shape.
func TestDefaultChunksOfLongDimensions(t *testing.T) {
	t.Parallel()
	for _, shape := range [][]int64{{2, 2e10}, {2, 1 << 40}, {1, 1, 1, 1 << 50}, {2, 2, 3, 1 << 30, 1 << 20}, {1 << 40, 3, 1 << 10}} {
		for _, size := range []int{1, 8, 128} {
			bytes := int64(size)
			chunks := dataset.DefaultChunks(shape, make([]bool, len(shape)), size)
			for _, n := range chunks {
				bytes *= n
			}
			if bytes > 128<<20 || bytes < 1<<20 {
				t.Errorf("shape %v with elements of %d bytes: chunks %v have %d bytes", shape, size, chunks, bytes)
			}
		}
	}
}
