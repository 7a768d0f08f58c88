package dataset_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// decodeCounter is the codec invert. It counts the chunks that it decodes.
type decodeCounter struct {
	invert
	n *atomic.Int64
}

func (d decodeCounter) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	_, out, err := d.invert.Open(id, params, in)
	return d, out, err
}

func (d decodeCounter) Decode(ctx context.Context, dst, src []byte) (int, error) {
	d.n.Add(1)
	return d.invert.Decode(ctx, dst, src)
}

// grid creates a dataset with a variable v of 4 by 4 chunks, each of 16 by 16 elements. The
// value of each element is its position in v.
func grid(t *testing.T, url string, o *dataset.Options) (*dataset.Dataset, *dataset.Var) {
	t.Helper()
	ds := create(t, url, o)
	y, x := dim(t, ds.Root(), "y", 64, false), dim(t, ds.Root(), "x", 64, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{
		Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{16, 16}, Codecs: []zarr.CodecSpec{{ID: "invert"}},
	})
	all := make([]int32, 64*64)
	for i := range all {
		all[i] = int32(i)
	}
	write(t, v, v.All(), all)
	return ds, v
}

func rowOf(y int64) chunk.Selection {
	return chunk.Selection{Start: []int64{y, 0}, Count: []int64{1, 64}}
}

// Reading row by row decodes each chunk once if a row of chunks fits in the cache. If
// one chunk of four does not fit, one chunk per row is decoded again.
func TestRowsDecodeChunksOnce(t *testing.T) {
	t.Parallel()
	const size = 16*16*4 + 272 // the cache has an overhead of 272 bytes for a chunk of two dimensions
	for _, c := range []struct{ cache, want int64 }{
		{0, 16}, {4 * size, 16}, {4*size - 1, 16 + 60}, {size - 1, 4 * 64}, {-1, 4 * 64},
	} {
		var n atomic.Int64
		o := memory(decodeCounter{n: &n})
		o.Workers, o.ChunkCache = 1, c.cache
		ds, v := grid(t, "mem:rows", o)
		for y := range int64(64) {
			got, err := dataset.Get[int32](t.Context(), v, rowOf(y))
			if err != nil {
				t.Fatal(err)
			}
			for x, value := range got {
				if want := int32(y*64) + int32(x); value != want {
					t.Fatalf("cache of %d bytes, row %d, element %d: got %d, want %d", c.cache, y, x, value, want)
				}
			}
		}
		if n.Load() != c.want {
			t.Errorf("cache of %d bytes: %d chunks were decoded, want %d", c.cache, n.Load(), c.want)
		}
		closeDataset(t, ds)
	}
}

// Chunks that are read as a whole are not cached: the next read decodes them again.
func TestWholeChunksAreNotCached(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := memory(decodeCounter{n: &n})
	ds, v := grid(t, "mem:whole", o)
	defer closeDataset(t, ds)
	for i, want := range []int64{16, 32} {
		if _, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil {
			t.Fatal(err)
		}
		if n.Load() != want {
			t.Errorf("read %d: %d chunks were decoded so far, want %d", i+1, n.Load(), want)
		}
	}
}

// TestRefresh checks that a dataset shows its own changes immediately, and the changes of
// other writers after Refresh.
func TestRefresh(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds, _ := grid(t, "mem:refresh", o)
	closeDataset(t, ds)
	reader := open(t, "mem:refresh", o)
	defer closeDataset(t, reader)
	first := func() int32 {
		t.Helper()
		got, err := dataset.Get[int32](t.Context(), variable(t, reader, "v"), rowOf(0))
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	first()
	u := *o
	u.Update = true
	writer := open(t, "mem:refresh", &u)
	defer closeDataset(t, writer)
	v := variable(t, writer, "v")
	for _, value := range []int32{-1, -2} {
		write(t, v, chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 1}}, []int32{value})
		got, err := dataset.Get[int32](t.Context(), v, rowOf(0))
		if err != nil || got[0] != value || got[1] != 1 {
			t.Errorf("the writer wrote %d and read %v, %v", value, got[:2], err)
		}
	}
	if got := first(); got != 0 {
		t.Errorf("before Refresh: got %d, want the value that was read first", got)
	}
	if reader.Refresh(); first() != -2 {
		t.Errorf("after Refresh: got %d, want -2", first())
	}
}

// A read never returns a value that is older than the last write that returned before the
// read.
func TestCacheDuringWrites(t *testing.T) {
	t.Parallel()
	ds, v := grid(t, "mem:beside", memory(invert{}))
	defer closeDataset(t, ds)
	const last = 200
	write(t, v, v.All(), make([]int32, 64*64))
	var written atomic.Int32
	var wg sync.WaitGroup
	for y := range int64(4) {
		wg.Go(func() {
			for seen := int32(0); seen < last; {
				at := written.Load()
				got, err := dataset.Get[int32](t.Context(), v, rowOf(17*y))
				if err != nil {
					t.Error(err)
					return
				}
				if seen = slices.Min(got); seen < at {
					t.Errorf("row %d: got %d after %d was written", 17*y, seen, at)
					return
				}
			}
		})
	}
	for n := int32(1); n <= last; n++ {
		write(t, v, v.All(), slices.Repeat([]int32{n}, 64*64))
		written.Store(n)
	}
	wg.Wait()
}

// A later write does not change the strings that reads have returned, even if the strings
// were cached.
func TestCachedStrings(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:text", o)
	defer closeDataset(t, ds)
	x := dim(t, ds.Root(), "x", 8, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, Chunks: []int64{8}})
	want := []string{"a", "", "ccc", "d", "e", "ff", "g", "h"}
	write(t, v, v.All(), want)
	var got []string
	for range 2 {
		got = got[:0]
		for i := range int64(8) {
			one, err := dataset.Get[string](t.Context(), v, chunk.Selection{Start: []int64{i}, Count: []int64{1}})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, one...)
		}
	}
	write(t, v, v.All(), slices.Repeat([]string{"zzz"}, 8))
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
