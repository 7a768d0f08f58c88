package manifest_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// growing is an Editor whose chunks become larger from chunk to chunk, and from one call of
// Update to the next.
type growing struct {
	data  []byte
	size  int   // of the last chunk
	total int64 // of the chunks of a shard
}

func (*growing) Plan([]manifest.Change) (grid, known []int64, batch int) { return nil, nil, 2 }

func (e *growing) Edit(_ context.Context, changes []*manifest.Change) error {
	for _, ch := range changes {
		e.size += 100
		ch.New = e.data[:e.size]
		e.total += int64(e.size)
	}
	return nil
}

// TestShardMemory writes shards that become larger, one after the other, and checks that
// they share their memory: all of it together is less than four times as large as the largest shard.
func TestShardMemory(t *testing.T) { //nolint:paralleltest // parallel tests would allocate too
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const chunks, shards = 64, 40
	m := newMap(t)
	s := manifest.NewShards(line(m), chunk.Regular([]int64{chunks}), manifest.ShardIndex{}, 1<<20, 1<<30, false)
	e := &growing{data: make([]byte, 1<<20)}
	var before, after runtime.MemStats
	stored := int64(0)
	runtime.ReadMemStats(&before)
	for i := range int64(shards) {
		e.size, e.total = 5000+500*int(i), 0
		indexes := make([]int64, chunks)
		for k := range indexes {
			indexes[k] = i*chunks + int64(k)
		}
		if err := s.Update(t.Context(), row(indexes...), e); err != nil {
			t.Fatal(err)
		}
		stored += e.total // the store keeps a copy
	}
	runtime.ReadMemStats(&after)
	if got := int64(after.TotalAlloc-before.TotalAlloc) - stored; got > 4*e.total {
		t.Errorf("want less than %d bytes allocated for %d shards of at most %d bytes, got %d", 4*e.total, shards, e.total, got)
	}
}
