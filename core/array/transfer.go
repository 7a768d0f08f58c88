package array

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
)

// transfer is one slab read or write in progress: what its workers share.
type transfer struct {
	a     *Array
	plan  *chunk.Plan
	sel   chunk.Selection // as stored: a scalar has its one element's dimension
	shape []int64         // of the array, as stored
	Slab
	fill     []byte
	size     int64 // bytes of a decoded chunk; the ceiling where that varies
	elements int64 // of a chunk
	varies   bool
	batch    int64           // chunks a worker takes at once
	found    []bool          // of a read: which chunks there are; nil when nobody asks
	target   manifest.Writer // of a write: the source
	only     []bool          // of a write: which chunks are written; nil for all
	absent   atomic.Bool     // of a read: a chunk was not found
	held     atomic.Int64    // of a read: bytes of strings of variable length
	next     atomic.Int64
	passes
}

// Batches: at least batchBytes of output, farBatchBytes where the codecs are in
// another process, and at most batchMax chunks. Source: measurements of the data
// plane, docs/explanation/performance.md.
const (
	batchBytes    = 1 << 20
	farBatchBytes = 4 << 20
	batchMax      = 64
)

// newTransfer plans the move of sel, which has been checked, from or to values.
func (a *Array) newTransfer(sel chunk.Selection, shape []int64, values Slab) (*transfer, error) {
	t := &transfer{a: a, sel: sel, shape: shape, Slab: values, fill: a.meta.Fill, size: a.size, elements: chunk.Product(a.meta.Chunks), varies: a.varies()}
	if len(shape) == 0 && len(a.meta.Chunks) == 1 { // a scalar that is stored with a dimension
		t.sel, t.shape = chunk.All([]int64{1}), []int64{1}
	}
	var err error
	if t.plan, err = chunk.NewPlan(t.sel, a.meta.Chunks); err != nil {
		return nil, err
	}
	bytes := int64(batchBytes)
	if !a.pipe.Local() {
		bytes = farBatchBytes
	}
	size := int64(a.meta.DType.Size)
	if t.varies {
		size = GuessedSize
	}
	t.batch = min(batchMax, max(1, bytes/(t.elements*size)))
	return t, nil
}

// run lets workers work until the plan is done, an error stops them or ctx
// ends.
func (t *transfer) run(ctx context.Context, work func(context.Context, *worker) error) error {
	scratch := t.size
	if t.a.pipe.Empty() { // bytes mostly land where they belong
		scratch /= 4
	}
	env := &t.a.env
	n := env.AtOnce(scratch)
	if !t.a.pipe.Local() && env.Workers <= 0 {
		n = max(n, farWorkers*runtime.GOMAXPROCS(0))
	}
	if !t.varies && env.Workers <= 0 { // so that all of them together decode no more at once than one chunk may have
		n = int(min(int64(n), max(1, env.MaxChunk/max(t.size, 1))))
	}
	tasks := (t.plan.Len() + t.batch - 1) / t.batch
	if tasks < int64(n) { // few chunks: smaller batches keep all workers busy
		t.batch = max(1, (t.plan.Len()+int64(n)-1)/int64(n))
		tasks = (t.plan.Len() + t.batch - 1) / t.batch
	}
	n = int(min(int64(n), tasks))
	for t.room = t.size; ; n = t.again(n) {
		if t.varies {
			t.room = max(1, t.size/max(1, int64(n)*t.batch))
		}
		if err := t.pass(ctx, n, work); err != nil || len(t.deferred) == 0 {
			return err
		}
	}
}

// pass lets n workers work until no chunks are left, an error stops them or ctx
// ends.
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

// farWorkers is the number of batches in flight for each core when chunks go
// through another process: one is at work there while another is moved here.
const farWorkers = 2

func (t *transfer) loop(ctx context.Context, work func(context.Context, *worker) error) error {
	w := t.a.worker(t)
	defer t.a.release(w)
	for {
		first, last := t.claim()
		if first >= last {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		w.take(first, last)
		if err := work(ctx, w); err != nil {
			return err
		}
	}
}

// swap turns the slab from stored to native byte order or back.
func (t *transfer) swap() {
	dt := t.a.meta.DType
	if dt.Order != dtype.OrderNone && dt.Order != dtype.Native {
		dtype.SwapBytes(t.Raw, dt.Width())
	}
}
