package array

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// transfer is the state of one slab read or write, shared by its workers.
type transfer struct {
	a     *Array
	plan  *chunk.Plan
	sel   chunk.Selection // in the stored array, in which a scalar may have one dimension
	shape []int64         // of the stored array
	Slab
	fill      []byte
	size      int64 // bytes of the largest decoded chunk; the limit if the size of elements varies
	elements  int64 // elements of the largest chunk
	varies    bool
	batch     int64            // chunks that a worker claims, or encodes, at a time
	units     *chunk.Units     // how chunks are grouped; nil if each chunk is read or stored separately
	unitGrid  chunk.Grid       // grid of the units, with lengths in chunks
	unit      int64            // chunks in the largest unit; 1 if units is nil
	claimed   int64            // units that a worker claims at a time
	spread    int64            // chunks that a worker encodes or decodes concurrently, if they are in units
	found     []bool           // of a read: which chunks exist; nil if not requested
	target    manifest.Writer  // of a write: the source of a
	bounds    []int64          // of a write: shape with the maximum for dimensions that other processes may have extended
	only      []bool           // of a write: which chunks to write; nil for all
	workers   int              // maximum number of concurrent workers; 0 means that only Env limits it
	clear     *clearing        // of a call of ClearUnacknowledged; nil for a write
	parts     []*bufferedChunk // of a write from the buffer: the chunks of the plan, with nil for those not in only
	absent    atomic.Bool      // of a read: whether a chunk was not found
	textBytes atomic.Int64     // of a read: bytes of strings of variable length
	textMost  int64            // of a read: limit for textBytes if there are several chunks
	version   uint64           // of a read: version of the cached chunks when it began
	keep      bool             // of a read: chunks that are read in part belong in the cache
	ends      bool             // of a write: call Env.Ending with the last batch
	next      atomic.Int64
	passes
}

// A batch has at most batchBytes of output, or processBatchBytes if the codecs are in
// another process, and at most maxBatch chunks, but at least one chunk. Source:
// measurements of the data plane, docs/explanation/performance.md.
const (
	batchBytes        = 1 << 20
	processBatchBytes = 4 << 20
	maxBatch          = 64
)

// newTransfer plans the read or write of sel. The caller has checked sel.
func (a *Array) newTransfer(sel chunk.Selection, shape []int64, values Slab) (*transfer, error) {
	t := &transfer{a: a, sel: sel, shape: shape, Slab: values, fill: a.meta.Fill, size: a.size, elements: chunk.Product(a.meta.Grid.Largest()), varies: a.isVariableLength(), unit: 1}
	if len(shape) == 0 && a.meta.Grid.Rank() == 1 { // a scalar stored with one dimension
		t.sel, t.shape = chunk.All([]int64{1}), []int64{1}
	}
	var err error
	if t.plan, err = chunk.NewPlan(t.sel, a.meta.Grid); err != nil {
		return nil, err
	}
	size := int64(a.meta.DType.Size)
	if t.varies {
		size = AssumedElementSize
	}
	t.batch = a.batch(t.elements * size)
	return t, nil
}

// group makes the transfer process the chunks of each unit together. unit is the grid of
// the units, with lengths in chunks.
func (t *transfer) group(unit chunk.Grid) (err error) {
	t.unitGrid, t.unit = unit, max(1, min(chunk.Product(unit.Largest()), t.plan.Len()))
	t.units, err = t.plan.Units(unit)
	return err
}

// maxUnit is the maximum number of chunks of a unit that are processed together. A
// larger unit is stored several times.
const maxUnit = 1 << 16

// batch returns the number of chunks in a batch if each has size bytes of output.
func (a *Array) batch(size int64) int64 {
	bytes := int64(batchBytes)
	if !a.pipe.Local() && size < bulkyChunk {
		bytes = processBatchBytes
	}
	return min(maxBatch, max(1, bytes/size))
}

// run runs workers until the plan is complete, a worker fails or ctx is done. It acquires
// the memory of the workers first.
func (t *transfer) run(ctx context.Context, work func(context.Context, *worker) error) error {
	scratch := t.a.scratchBytes()
	if t.units != nil {
		scratch = t.unitBytes()
	}
	n := t.a.workers(scratch)
	if t.workers > 0 {
		n = min(n, t.workers)
	}
	items, batch := t.plan.Len(), &t.batch
	if t.units != nil {
		t.claimed = max(1, t.batch/t.unit)
		items, batch = t.units.Len(), &t.claimed
	}
	tasks := (items + *batch - 1) / *batch
	if tasks < int64(n) { // few chunks: make batches smaller to keep all workers busy
		*batch = max(1, (items+int64(n)-1)/int64(n))
		tasks = (items + *batch - 1) / *batch
	}
	n = int(min(int64(n), tasks))
	if t.varies {
		return t.runVaried(ctx, n, work)
	}
	cores := 0
	if t.units != nil { // few units: use all cores for each
		if cores = t.a.env.Workers; cores <= 0 {
			cores = runtime.GOMAXPROCS(0)
		}
		t.batch = max(t.batch, int64(cores/n))
	}
	need := t.a.need(t.target != nil, t.unitGrid)
	b := budget.From(ctx, t.a.env.Budget)
	got, err := b.Acquire(ctx, need.of(1, min(t.claimed, 1)), saturate(float64(n)*float64(need.of(t.batch, t.claimed))))
	if err != nil {
		return err
	}
	defer b.Release(got)
	n = t.fit(n, got, need)
	t.ends = t.target != nil && t.units == nil && t.a.env.Ending != nil && t.plan.Len() > int64(n)*t.batch
	t.spread = min(t.batch, int64(cores/n))
	t.room = t.size
	return t.pass(ctx, n, work)
}

// unitBytes returns the decoded size of a unit: a chunk, or all chunks of the transfer
// that are stored together. It is an estimate for elements of variable length.
func (t *transfer) unitBytes() int64 {
	size := t.size
	if t.varies && t.units != nil {
		size = t.elements * AssumedElementSize
	}
	if size > math.MaxInt64/t.unit {
		return math.MaxInt64
	}
	return size * t.unit
}

// pass runs n workers until no chunks are left, a worker fails or ctx is done.
func (t *transfer) pass(ctx context.Context, n int, work func(context.Context, *worker) error) error {
	if n <= 1 {
		return t.loop(ctx, work)
	}
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error { return t.loop(ctx, work) })
	}
	return g.Wait()
}

// processWorkers is the number of concurrent batches per core if the codecs are in
// another process, which can then decode one batch while this process copies another.
const processWorkers = 2

// bulkyChunk is the size in bytes from which decoding a chunk takes so much longer than
// sending a message that batches have one chunk, and one more batch than there are cores
// keeps the other process busy. More would only take memory.
const bulkyChunk = 1 << 20

func (t *transfer) loop(ctx context.Context, work func(context.Context, *worker) error) error {
	w := t.a.worker(t)
	defer t.a.release(w)
	most := maxUnit
	if t.target == nil {
		most = int(t.batch)
	}
	for {
		w.claimed = t.claim(w.claimed[:0])
		if len(w.claimed) == 0 {
			return nil
		}
		if t.ends && w.claimed[len(w.claimed)-1] == t.plan.Len()-1 {
			t.a.env.Ending(ctx)
		}
		for left := w.claimed; len(left) > 0; left = left[w.n:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.take(ctx, left[:min(len(left), most)]); err != nil {
				return err
			}
			if err := work(ctx, w); err != nil {
				return err
			}
		}
	}
}

// swap converts the slab between stored and native byte order.
func (t *transfer) swap() {
	dt := t.a.meta.DType
	if dt.Order != dtype.OrderNone && dt.Order != dtype.Native {
		dtype.SwapBytes(t.Raw, dt.Width())
	}
}
