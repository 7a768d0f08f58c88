package dataset_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A Flush that removes what a failed write has left needs memory, which a write may hold that
// waits for the end of the Flush because its data is buffered.
func TestDropWhileWriteWaits(t *testing.T) {
	t.Parallel()
	for _, shards := range [][]int64{nil, {4}} {
		synctest.Test(t, func(t *testing.T) {
			const n = 64 << 10
			var fails, blocks bool
			release := make(chan struct{})
			o := inMemory()
			o.Budget, o.Workers = budget.New(2<<20), 8
			o.Wrap = func(m driver.Map) driver.Map {
				return slowMap{m, func(op, key string) error {
					if op == "put" && fails && strings.HasSuffix(key, "/1") {
						return ncerr.ErrPermission
					}
					if op == "put" && blocks && strings.HasPrefix(key, "w/") {
						<-release
					}
					return nil
				}}
			}
			ds := create(t, "mem:drop#mode=v3", o)
			x := dim(t, ds.Root(), "x", 0, true)
			y := dim(t, ds.Root(), "y", 8*n, false)
			spec := &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{4}}
			if shards != nil {
				spec.Chunks, spec.Shards = []int64{1}, shards
			}
			v := define(t, ds.Root(), "v", spec)
			w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{y}, Chunks: []int64{n}})
			fails = true
			if err := v.Write(t.Context(), chunk.Selection{Start: []int64{0}, Count: []int64{8}}, make([]int8, 8)); ncerr.KindOf(err) != ncerr.ErrPermission {
				t.Fatal(err)
			}
			fails, blocks = false, true
			written, flushed := make(chan error, 1), make(chan error, 1)
			go func() {
				written <- w.Write(t.Context(), chunk.Selection{Start: []int64{0}, Count: []int64{5*n + 1}}, make([]int8, 5*n+1))
			}()
			synctest.Wait()
			go func() { flushed <- ds.Flush(t.Context()) }()
			synctest.Wait()
			close(release)
			for _, c := range []chan error{written, flushed} {
				if err := <-c; err != nil {
					t.Error(err)
				}
			}
			closeDataset(t, ds)
		})
	}
}

// A Flush that removes what a failed write has left does not wait for memory of a write that
// waits to extend a dimension.
func TestDropWhileGrowthWaits(t *testing.T) {
	t.Parallel()
	const n = 64 << 10
	var fails, blocks atomic.Bool
	listing, release := make(chan struct{}), make(chan struct{})
	o := inMemory()
	o.Budget = budget.New(2 << 20)
	o.Wrap = func(m driver.Map) driver.Map {
		return slowMap{m, func(op, key string) error {
			if op == "put" && fails.Load() && strings.HasSuffix(key, "/1") {
				return ncerr.ErrPermission
			}
			if op == "list" && blocks.CompareAndSwap(true, false) {
				close(listing)
				<-release
			}
			return nil
		}}
	}
	ds := create(t, "mem:grow#mode=v3", o)
	x, y := dim(t, ds.Root(), "x", 0, true), dim(t, ds.Root(), "y", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{x}, Chunks: []int64{1}, Shards: []int64{4}})
	w := define(t, ds.Root(), "w", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{y}, Chunks: []int64{n}})
	fails.Store(true)
	if err := v.Write(t.Context(), chunk.Selection{Start: []int64{0}, Count: []int64{8}}, make([]int8, 8)); ncerr.KindOf(err) != ncerr.ErrPermission {
		t.Fatal(err)
	}
	fails.Store(false)
	blocks.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	written, flushed := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- ds.Flush(ctx) }()
	<-listing
	go func() {
		written <- w.Write(t.Context(), chunk.Selection{Start: []int64{0}, Count: []int64{8 * n}}, make([]int32, 8*n)) // converts the values
	}()
	canceled, stop := context.WithCancel(t.Context())
	stop()
	for all, busy := o.Budget.ForCalls(), false; !busy; runtime.Gosched() { // until the write or the Flush has memory
		got, err := o.Budget.Acquire(canceled, 1, all)
		if busy = err != nil || got < all; err == nil {
			o.Budget.Release(got)
		}
	}
	close(release)
	for _, c := range []chan error{flushed, written} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	closeDataset(t, ds)
}

// If the claim is gone, a Flush removes nothing that a failed write may have left, and
// consolidated metadata is kept: they may be those of another dataset.
func TestDropWithoutClaim(t *testing.T) {
	t.Parallel()
	_, o := inBuckets()
	url := belowURL + "#mode=nczarr,consolidated" + belowRest
	fails := true
	spec := func(x *dataset.Dim) *dataset.VarSpec {
		return &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}}
	}
	sel, values := chunk.Selection{Start: []int64{0}, Count: []int64{2}}, []int32{3, 4}
	ds := create(t, url, hook(o, func(op, key string) error {
		if op == "put" && key == "v/1" && fails {
			return ncerr.ErrPermission
		}
		return nil
	}))
	v := define(t, ds.Root(), "v", spec(dim(t, ds.Root(), "x", 0, true)))
	if err := v.Write(t.Context(), sel, []int32{1, 2}); ncerr.KindOf(err) != ncerr.ErrPermission {
		t.Fatal(err)
	}
	if _, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil {
		t.Fatal(err)
	}
	other := create(t, url, o)
	write(t, define(t, other.Root(), "v", spec(dim(t, other.Root(), "x", 0, true))), sel, values)
	closeDataset(t, other)
	fails = false
	if err := ds.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("flush: want ErrConflict, got %v", err)
	}
	if err := ds.RemoveConsolidated(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("remove the consolidated metadata: want ErrConflict, got %v", err)
	}
	again := open(t, url, o)
	if expect(t, again, "v", values); !again.Consolidated() {
		t.Error("the consolidated metadata of the other dataset is gone")
	}
	closeDataset(t, again)
	_ = ds.Abort(t.Context())
}
