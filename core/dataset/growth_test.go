package dataset_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// gate is a store that blocks the first Put of a key until open is closed or a short time
// has passed.
type gate struct {
	driver.Map
	key          string
	first        atomic.Bool
	entered      chan struct{}
	open         chan struct{}
	noConditions bool // no conditional writes
}

func newGate(key string, noConditions bool) (*gate, func(driver.Map) driver.Map) {
	g := &gate{key: key, entered: make(chan struct{}), open: make(chan struct{}), noConditions: noConditions}
	return g, func(m driver.Map) driver.Map {
		g.Map = m
		return g
	}
}

func (g *gate) Capabilities() driver.Capabilities {
	c := g.Map.Capabilities()
	if g.noConditions {
		c.IfMatch, c.IfAbsent = false, false
	}
	return c
}

func (g *gate) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if key == g.key && g.first.CompareAndSwap(false, true) {
		close(g.entered)
		select {
		case <-g.open:
		case <-time.After(100 * time.Millisecond):
		}
	}
	return g.Map.Put(ctx, key, body, o)
}

func slab(start, count int64) chunk.Selection {
	return chunk.Selection{Start: []int64{start}, Count: []int64{count}}
}

// A write that fills a chunk up to the end of an unlimited dimension, and a concurrent
// one that extends the dimension, do not overwrite each other's data.
func TestGrowthDuringWriteOfLastChunk(t *testing.T) {
	t.Parallel()
	for _, noConditions := range []bool{false, true} {
		o := unbuffered(memory())
		g, wrap := newGate("v/0", noConditions)
		o.Wrap = wrap
		ds := create(t, "mem:g", o)
		x := dim(t, ds.Root(), "x", 0, true)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{4}})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := v.Write(t.Context(), slab(0, 3), []int32{1, 2, 3}); err != nil {
				t.Error(err)
			}
		})
		<-g.entered
		write(t, v, slab(3, 1), []int32{4})
		close(g.open)
		wg.Wait()
		expect(t, ds, "v", []int32{1, 2, 3, 4})
		closeDataset(t, ds)
	}
}

// If a whole chunk and a part of it are written concurrently, the elements that only the
// write of the whole chunk covers have the values of that write afterwards.
func TestWholeChunkDuringPartialWrite(t *testing.T) {
	t.Parallel()
	for _, noConditions := range []bool{false, true} {
		o := unbuffered(memory())
		g, wrap := newGate("v/0", noConditions)
		o.Wrap = wrap
		ds := create(t, "mem:w", o)
		x := dim(t, ds.Root(), "x", 4, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{4}})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := v.Write(t.Context(), slab(1, 1), []int32{9}); err != nil {
				t.Error(err)
			}
		})
		<-g.entered
		write(t, v, v.All(), []int32{1, 2, 3, 4})
		close(g.open)
		wg.Wait()
		got, err := dataset.Get[int32](t.Context(), v, v.All())
		if err != nil || !slices.Equal(got, []int32{1, 2, 3, 4}) && !slices.Equal(got, []int32{1, 9, 3, 4}) {
			t.Errorf("without conditional writes %t: want elements 1, 3 and 4 of the whole write, got %v, %v", noConditions, got, err)
		}
		closeDataset(t, ds)
	}
}
