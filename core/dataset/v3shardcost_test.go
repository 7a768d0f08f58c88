package dataset_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestInnerChunkRequests checks that the first read of a chunk in a shard sends two
// requests, for the index and for the chunk, and that later reads of other chunks in the
// same shard send one.
func TestInnerChunkRequests(t *testing.T) {
	t.Parallel()
	o := inMemory()
	counts := &shardCounts{}
	o.Wrap = func(m driver.Map) driver.Map { return shardRequests{m, counts} }
	ds := create(t, "mem:s#mode=v3", o)
	y, x := dim(t, ds.Root(), "y", 8, false), dim(t, ds.Root(), "x", 16, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{2, 2}, Shards: []int64{8, 8}})
	write(t, v, v.All(), make([]int32, 128))
	closeDataset(t, ds)
	ds = open(t, "mem:s", o)
	v = variable(t, ds, "v")
	for i, c := range []struct{ y, x, want int64 }{{0, 0, 2}, {2, 4, 1}, {6, 6, 1}, {4, 10, 2}, {0, 14, 1}, {2, 0, 1}} {
		counts.gets.Store(0)
		if _, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{c.y, c.x}, Count: []int64{2, 2}}); err != nil {
			t.Fatal(err)
		}
		if got := counts.gets.Load(); got != c.want {
			t.Errorf("read %d, of the chunk at %d, %d: want %d requests, got %d", i, c.y, c.x, c.want, got)
		}
	}
}

// TestReadAllocatesNothingPerInnerChunk checks that the number of allocations of a read
// does not grow with the number of chunks in shards.
func TestReadAllocatesNothingPerInnerChunk(t *testing.T) { //nolint:paralleltest // it counts allocations
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, codecs := range [][]zarr.CodecSpec{nil, {{ID: "invert"}}} {
		allocs := func(n int64) float64 {
			o := inMemory(invert{})
			o.Workers = 1
			ds := create(t, "mem:alloc#mode=v3", o)
			defer closeDataset(t, ds)
			x := dim(t, ds.Root(), "x", n*64, false)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Chunks: []int64{64}, Shards: []int64{n * 64 / 4}, Codecs: codecs})
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
