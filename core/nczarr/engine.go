package nczarr

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// engine is what a variable needs to move data: its codec pipeline and the
// Source of its chunks, opened at the first use.
type engine struct {
	mu      sync.Mutex  // held while it is opened
	opened  atomic.Bool // pipe is set
	pipe    *codec.Pipeline
	once    sync.Once // for source
	source  manifest.Source
	atRoot  bool // the array is the root of the store
	workers sync.Pool
	// unversioned says that the store gave an object without a version.
	unversioned atomic.Bool
	// ranges says that the store gave a part of an object, noRanges that one
	// costs the whole, or cannot be had.
	ranges, noRanges atomic.Bool
}

// open opens the pipeline unless it is open. After a failure the next use tries
// again: a plugin that was not there may have come.
func (v *Var) open(ctx context.Context) error {
	e := &v.data
	if e.opened.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened.Load() {
		return nil
	}
	pipe, err := v.openPipeline(ctx)
	if ncerr.KindOf(err) == ncerr.ErrInvalid && !v.defined { // by the store, not by the caller
		return ncerr.New(ncerr.ErrMetadata, "open", join(v.Path(), zarr.ArrayDoc), err)
	}
	if err != nil {
		return ncerr.Wrap("open", v.Path(), err)
	}
	e.pipe = pipe
	e.opened.Store(true)
	return nil
}

// source is where the chunks of the variable are.
func (v *Var) source() manifest.Source {
	e := &v.data
	e.once.Do(func() { e.source = manifest.NewComputed(v.group.ds.m, v.key(), v.meta.Separator, len(v.meta.Chunks)) })
	return e.source
}

// target is the source as one that can be changed.
func (v *Var) target() (manifest.Writer, error) {
	if w, ok := v.source().(manifest.Writer); ok {
		return w, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrReadOnly, "write", v.Path(), "its chunks are in other files, which are not changed")
}

func (v *Var) openPipeline(ctx context.Context) (*codec.Pipeline, error) {
	steps := make([]codecdriver.Step, len(v.meta.Codecs))
	for i, c := range v.meta.Codecs {
		steps[i] = codecdriver.Step{ID: c.ID, Params: c.Params}
	}
	t, fill := v.stored()
	in := codecdriver.Spec{Kind: codecdriver.Array, DType: t, Fill: fill, Shape: storedShape(v.meta)}
	in.MaxBytes = v.chunkBytes()
	return codec.Open(ctx, steps, in, v.group.ds.opts.Registry.Filter)
}

// storedShape is the chunk shape in the order in which it is stored.
func storedShape(meta *zarr.Array) []int {
	shape := make([]int, len(meta.Chunks))
	for i := range shape {
		d := i
		if meta.Transpose != nil {
			d = meta.Transpose[i]
		}
		shape[i] = int(meta.Chunks[d])
	}
	return shape
}

func (e *engine) close() {
	if e.opened.Load() {
		_ = e.pipe.Close() // nothing was left in it
	}
}

// chunkBytes is the size of a decoded chunk, which was checked against the
// limit when the variable was opened; where elements vary it is the limit.
func (v *Var) chunkBytes() int64 {
	if v.varies() {
		return v.group.ds.opts.Limits.MaxChunk
	}
	t, _ := v.stored()
	return int64(t.Size) * product(v.meta.Chunks)
}

// product multiplies lengths whose product is known to fit.
func product(lengths []int64) int64 {
	n := int64(1)
	for _, k := range lengths {
		n *= k
	}
	return n
}

// Available reports whether the variable's data can be read: nil, or the
// error that a read would give because a codec is not there.
func (v *Var) Available(ctx context.Context) error { return v.open(ctx) }

// transfer is one slab read or write in progress: what its workers share.
type transfer struct {
	v      *Var
	e      *engine
	source manifest.Source
	plan   *chunk.Plan
	sel    chunk.Selection // as stored: a scalar has its one element's dimension
	shape  []int64         // of the array, as stored
	slab
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
	fail     failure
	passes
}

// failure keeps the first error of several workers.
type failure struct {
	set  atomic.Bool
	once sync.Once
	err  error
}

func (f *failure) put(err error) {
	if err != nil {
		f.once.Do(func() { f.err = err; f.set.Store(true) })
	}
}

// Batches: at least batchBytes of output, farBatchBytes where the codecs are in
// another process, and at most batchMax chunks. Source: measurements of the data
// plane, docs/explanation/performance.md.
const (
	batchBytes    = 1 << 20
	farBatchBytes = 4 << 20
	batchMax      = 64
)

// newTransfer plans the move of sel, which has been checked, from or to
// values.
func (v *Var) newTransfer(sel chunk.Selection, shape []int64, values slab) (*transfer, error) {
	t := &transfer{v: v, e: &v.data, source: v.source(), sel: sel, shape: shape, slab: values, fill: v.meta.Fill, size: v.chunkBytes(), elements: product(v.meta.Chunks), varies: v.varies()}
	if v.meta.Scalar && len(v.meta.Chunks) == 1 {
		t.sel, t.shape = chunk.All([]int64{1}), []int64{1}
	}
	var err error
	if t.plan, err = chunk.NewPlan(t.sel, v.meta.Chunks); err != nil {
		return nil, err
	}
	bytes := int64(batchBytes)
	if !t.e.pipe.Local() {
		bytes = farBatchBytes
	}
	t.batch = min(batchMax, max(1, bytes/(t.elements*v.elemBytes())))
	return t, nil
}

// run lets workers work until the plan is done, an error stops them or ctx
// ends.
func (t *transfer) run(ctx context.Context, work func(context.Context, *worker) error) error {
	scratch := t.size
	if t.e.pipe.Empty() { // bytes mostly land where they belong
		scratch /= 4
	}
	n := t.v.group.ds.workers(scratch)
	if !t.e.pipe.Local() && t.v.group.ds.opts.Workers <= 0 {
		n = max(n, farWorkers*runtime.GOMAXPROCS(0))
	}
	if !t.varies && t.v.group.ds.opts.Workers <= 0 { // so that all of them together decode no more at once than one chunk may have
		n = int(min(int64(n), max(1, t.v.group.ds.opts.Limits.MaxChunk/max(t.size, 1))))
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
		t.fail.put(t.loop(ctx, work))
		return t.fail.err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := t.loop(ctx, work); err != nil {
				t.fail.put(err)
				cancel(err)
			}
		})
	}
	wg.Wait()
	return t.fail.err
}

// workers is the number of batches worked on at once, with chunks of size
// bytes. For a store that takes tens of milliseconds to answer it is as many as
// requests may be in flight, as far as their scratch stays within bounds.
func (d *Dataset) workers(size int64) int {
	if d.opts.Workers > 0 {
		return d.opts.Workers
	}
	n := runtime.GOMAXPROCS(0)
	if d.m.Capabilities().Latency != driver.Remote {
		return n
	}
	flying := int64(d.opts.Remote.InFlight)
	if flying <= 0 {
		flying = 64
	}
	return max(n, int(min(flying, remoteScratch/max(2*size, 1))))
}

// remoteScratch bounds the scratch of the workers for a store that takes its
// time, in bytes: two buffers of the size of a chunk for each.
const remoteScratch = 256 << 20

// farWorkers is the number of batches in flight for each core when chunks go
// through another process: one is at work there while another is moved here.
const farWorkers = 2

func (t *transfer) loop(ctx context.Context, work func(context.Context, *worker) error) error {
	w := t.e.worker(t)
	defer t.e.release(w)
	for !t.fail.set.Load() {
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
	return nil
}

// swap turns the slab from stored to native byte order or back.
func (t *transfer) swap() {
	dt := t.v.meta.DType
	if dt.Order != dtype.OrderNone && dt.Order != dtype.Native {
		dtype.SwapBytes(t.raw, dt.Width())
	}
}
