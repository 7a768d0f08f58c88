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

// transfer is the state of one slab read or write, shared by its workers.
type transfer struct {
	a     *Array
	plan  *chunk.Plan
	sel   chunk.Selection // as stored: a scalar may have one dimension
	shape []int64         // of the array as stored
	Slab
	fill      []byte
	size      int64 // bytes of a decoded chunk; the limit if the size varies
	elements  int64 // elements of a chunk
	varies    bool
	batch     int64           // chunks that a worker claims at a time
	found     []bool          // of a read: which chunks exist; nil if not requested
	target    manifest.Writer // of a write: the source
	only      []bool          // of a write: which chunks to write; nil for all
	absent    atomic.Bool     // of a read: whether a chunk was not found
	textBytes atomic.Int64    // of a read: bytes of strings of variable length
	next      atomic.Int64
	passes
}

// A batch has at least batchBytes of output, or processBatchBytes if the codecs are in
// another process, and at most batchMax chunks. Source: measurements of the data plane,
// docs/explanation/performance.md.
const (
	batchBytes        = 1 << 20
	processBatchBytes = 4 << 20
	batchMax          = 64
)

// newTransfer plans the read or write of sel. The caller has checked sel.
func (a *Array) newTransfer(sel chunk.Selection, shape []int64, values Slab) (*transfer, error) {
	t := &transfer{a: a, sel: sel, shape: shape, Slab: values, fill: a.meta.Fill, size: a.size, elements: chunk.Product(a.meta.Chunks), varies: a.varies()}
	if len(shape) == 0 && len(a.meta.Chunks) == 1 { // a scalar stored with one dimension
		t.sel, t.shape = chunk.All([]int64{1}), []int64{1}
	}
	var err error
	if t.plan, err = chunk.NewPlan(t.sel, a.meta.Chunks); err != nil {
		return nil, err
	}
	bytes := int64(batchBytes)
	if !a.pipe.Local() {
		bytes = processBatchBytes
	}
	size := int64(a.meta.DType.Size)
	if t.varies {
		size = AssumedElementSize
	}
	t.batch = min(batchMax, max(1, bytes/(t.elements*size)))
	return t, nil
}

// run runs workers until the plan is complete, a worker fails or ctx is done.
func (t *transfer) run(ctx context.Context, work func(context.Context, *worker) error) error {
	scratch := t.size
	if t.a.pipe.Empty() { // most bytes are read directly into the slab
		scratch /= 4
	}
	env := &t.a.env
	n := env.Concurrency(scratch)
	if !t.a.pipe.Local() && env.Workers <= 0 {
		n = max(n, processWorkers*runtime.GOMAXPROCS(0))
	}
	if !t.varies && env.Workers <= 0 { // limit what all workers together decode at a time to env.MaxChunk
		n = int(min(int64(n), max(1, env.MaxChunk/max(t.size, 1))))
	}
	tasks := (t.plan.Len() + t.batch - 1) / t.batch
	if tasks < int64(n) { // few chunks: make batches smaller to keep all workers busy
		t.batch = max(1, (t.plan.Len()+int64(n)-1)/int64(n))
		tasks = (t.plan.Len() + t.batch - 1) / t.batch
	}
	n = int(min(int64(n), tasks))
	for t.room = t.size; ; n = t.nextPass(n) {
		if t.varies {
			t.room = max(1, t.size/max(1, int64(n)*t.batch))
		}
		if err := t.pass(ctx, n, work); err != nil || len(t.deferred) == 0 {
			return err
		}
	}
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

// processWorkers is the number of concurrent batches per core if the codecs are in another
// process: one is processed there while another is copied here.
const processWorkers = 2

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

// swap converts the slab between stored and native byte order.
func (t *transfer) swap() {
	dt := t.a.meta.DType
	if dt.Order != dtype.OrderNone && dt.Order != dtype.Native {
		dtype.SwapBytes(t.Raw, dt.Width())
	}
}
