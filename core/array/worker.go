package array

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// worker processes chunks in one goroutine. It processes one batch at a time and reuses
// its scratch memory for later batches.
type worker struct {
	t     *transfer
	mover *chunk.Mover
	n     int // chunks in the batch, which have the same shape

	chunks   []int64         // shape of the chunks of the batch
	elements int64           // elements of a chunk of the batch
	size     int64           // bytes of a decoded chunk of the batch; the limit if the size of elements varies
	room     int64           // see passes
	pipe     *codec.Pipeline // for chunks of that shape
	used     *shapePipe      // owner of pipe; nil if the grid is regular

	claimed []int64 // see transfer.claim
	numbers []int64 // numbers of the chunks of the batch in the plan
	items   []item
	spans   []chunk.Span
	index   []int64
	shapes  []int64 // memory of the results of Plan
	texts   []string
	indexes [][]int64
	where   []manifest.Location
	reqs    []zmap.GetRequest
	jobs    []codecdriver.Job
	jobItem []int  // item of each request or job
	base    int    // first request or job of the call in progress
	key     []byte // of a chunk in the cache
	changes []manifest.Change
	// vetted is set after Env.Vet has returned acknowledged for the current batch.
	vetted       bool
	acknowledged []int64
	err          error

	onGet    driver.GetSink
	onDecode codecdriver.Sink
}

// item is one chunk of the batch.
type item struct {
	proj     chunk.Projection
	have     bool   // in is valid
	keep     bool   // of a read: the chunk belongs in the cache
	placed   bool   // of a read: the chunk came from the cache
	encoded  bool   // of a write: the chunk is encoded, or failed
	in       []byte // encoded bytes; may be empty
	out      []byte // decoded bytes
	inBuf    []byte // reused for later batches
	outBuf   []byte
	lentIn   lent   // for encoded bytes, from the pipeline
	lentNew  lent   // of a write: for decoded bytes, from the pipeline or the store
	lentBody lent   // of a write: for encoded bytes, from the store
	direct   []byte // the part of the slab that holds exactly this chunk, or nil
	alloc    driver.Alloc
	vet      bool // of a write: the stored chunk may contain elements that belong to nobody
	pieces
}

// worker returns an idle worker, or a new one, prepared for t.
func (a *Array) worker(t *transfer) *worker {
	w, _ := a.scratch.Get().(*worker)
	if w == nil {
		w = &worker{}
		w.onGet, w.onDecode = w.handleResult, w.handleDecoded
	}
	w.t = t
	w.mover = chunk.NewMover(t.plan, t.sel.Count, a.meta.Grid.Largest(), a.meta.Transpose, max(a.meta.DType.Size, 1))
	if a.meta.Stored.Size != a.meta.DType.Size {
		w.mover.Field(a.meta.Stored.Size, a.meta.Offset)
	}
	w.grow(int(t.batch), t.plan.Rank())
	w.chunks = append(w.chunks[:0], a.meta.Grid.Largest()...)
	w.pipe, w.elements, w.size = a.pipe, t.elements, t.size
	return w
}

// setShape prepares w for chunks of the shape of proj.
func (w *worker) setShape(ctx context.Context, proj chunk.Projection) error {
	a := w.t.a
	w.dropPipe()
	for d, s := range proj {
		w.chunks[d] = s.Size
	}
	w.elements, w.size = chunk.Product(w.chunks), a.meta.ChunkBytes(w.chunks, a.env.MaxChunk)
	s, err := a.use(ctx, w.chunks)
	if err == nil {
		w.pipe, w.used = s.Pipeline, s
	}
	return err
}

// dropPipe returns the pipeline of the batch and the memory that it has lent.
func (w *worker) dropPipe() {
	for i := range w.items {
		it := &w.items[i]
		it.lentIn.drop()
		it.lentNew.drop()
		it.lentBody.drop()
	}
	if w.used != nil {
		w.t.a.pipes.release(w.used)
	}
	w.used = nil
}

// fits reports whether the chunk of proj has the shape of the chunks in the batch.
func (w *worker) fits(proj chunk.Projection) bool {
	for d, s := range proj {
		if s.Size != w.chunks[d] {
			return false
		}
	}
	return true
}

// maxScratch is the maximum scratch memory in bytes that a worker keeps between
// transfers, unless the budget is small. It is enough for one chunk of the default size,
// encoded and decoded, or for one chunk of 32 MiB that codecs make slightly larger. The
// budget does not count it.
const maxScratch = 34 << 20

// release makes the worker available to the next transfer, with at most maxScratch
// bytes of scratch memory.
func (a *Array) release(w *worker) {
	w.dropPipe()
	w.t, w.mover, w.err, w.pipe = nil, nil, nil, nil
	if len(w.items) > maxBatch*maxBatch { // a unit had many chunks
		return
	}
	kept, most := 0, int(min(maxScratch, a.env.Budget.ForCalls()/32))
	for i := range w.items {
		it := &w.items[i]
		it.have, it.in, it.out, it.direct = false, nil, nil, nil
		it.pieces.release()
		for _, buf := range []*[]byte{&it.inBuf, &it.outBuf} {
			if kept += cap(*buf); kept > most {
				kept -= cap(*buf)
				*buf = nil
			}
		}
	}
	if cap(w.texts) > maxScratch/16 {
		w.texts = nil
	}
	clear(w.where)
	clear(w.reqs[:cap(w.reqs)])
	clear(w.jobs[:cap(w.jobs)])
	clear(w.changes[:cap(w.changes)])    // changes may refer to memory of the caller
	if cap(w.reqs) > maxBatch*maxBatch { // a chunk had many pieces
		w.reqs, w.jobItem = nil, nil
	}
	a.scratch.Put(w)
}

func (w *worker) grow(batch, rank int) {
	for len(w.items) < batch {
		i := len(w.items)
		w.items = append(w.items, item{})
		w.items[i].alloc = func(n int64) ([]byte, error) { return w.allocIn(i, n) }
	}
	if need := batch * rank; len(w.spans) < need {
		w.spans, w.index = make([]chunk.Span, need), make([]int64, need)
	}
	if cap(w.indexes) < batch {
		w.indexes = make([][]int64, batch)
		w.where = make([]manifest.Location, batch)
		w.reqs = make([]zmap.GetRequest, 0, batch)
		w.jobs = make([]codecdriver.Job, 0, batch)
		w.jobItem = make([]int, 0, batch)
	}
	w.indexes, w.where = w.indexes[:cap(w.indexes)], w.where[:cap(w.where)]
}

// take sets the batch to the chunks of the plan with the given numbers, up to the first chunk
// that differs from the preceding ones in shape.
func (w *worker) take(ctx context.Context, numbers []int64) error {
	rank := w.t.plan.Rank()
	w.n, w.numbers, w.err = len(numbers), numbers, nil
	w.grow(w.n, rank)
	for i, number := range numbers {
		it := &w.items[i]
		it.proj = chunk.Projection(w.spans[i*rank : (i+1)*rank])
		it.have, it.in, it.out, it.direct, it.cut = false, nil, nil, nil, chunk.Pieces{}
		w.t.plan.At(number, it.proj)
		if !w.t.a.meta.Grid.Regular() && !w.fits(it.proj) {
			if i > 0 {
				w.n = i
				break
			}
			if err := w.setShape(ctx, it.proj); err != nil {
				return err
			}
		}
		index := w.index[i*rank : (i+1)*rank]
		for d, s := range it.proj {
			index[d] = s.Index
		}
		w.indexes[i] = index
	}
	if w.room = w.size; w.t.varies {
		w.room = w.t.room
	}
	return nil
}

// allocIn returns memory for the encoded bytes of item i: a part of the slab if the
// chunk is stored without codecs and is contiguous there, and otherwise a reused
// buffer.
func (w *worker) allocIn(i int, n int64) ([]byte, error) {
	it := &w.items[i]
	if it.direct != nil && n == int64(len(it.direct)) && w.pipe.Empty() {
		return it.direct, nil
	}
	if limit := w.maxStored(i); n > limit { // only for requests with a range; for others the store has checked the limit
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the stored chunk has %d bytes, more than the maximum of %d for its codecs", n, limit)
	}
	return it.encodedBuf(w.pipe, n), nil
}

// encodedBuf returns memory for n encoded bytes: memory that the pipeline lends if
// possible, and otherwise scratch memory.
func (it *item) encodedBuf(pipe *codec.Pipeline, n int64) []byte {
	if mem := it.lentIn.get(n, pipe.MaxInput(0), pipe.LendInput); mem != nil {
		return mem
	}
	it.inBuf = resizeEncoded(it.inBuf, n, pipe.MaxInput(0))
	return it.inBuf
}

// newBuf returns memory for the decoded bytes of a chunk to write: memory from which the
// pipeline, or the store if there are no codecs, reads without a copy if possible, and
// otherwise scratch memory.
func (w *worker) newBuf(it *item) []byte {
	lend := w.pipe.LendDecoded
	if w.pipe.Empty() {
		lend = w.t.target.LendBody
	}
	if mem := it.lentNew.get(w.size, w.size, lend); mem != nil {
		return mem
	}
	return w.decodeBuf(it)
}

// bodyBuf returns memory for n encoded bytes of a chunk to write: memory from which the store
// reads without a copy if possible, and otherwise scratch memory.
func (w *worker) bodyBuf(it *item, n int64) []byte {
	most := w.pipe.MaxEncoded()
	if mem := it.lentBody.get(n, most, w.t.target.LendBody); mem != nil {
		return mem
	}
	it.inBuf = resizeEncoded(it.inBuf, n, most)
	return it.inBuf
}

// lent is memory that a pipeline or a store lends. It is reused for later batches.
type lent struct {
	mem     []byte
	release func()
}

// get returns n bytes of the memory. If it has less, get borrows other memory, with room for
// slightly larger chunks of up to most bytes if possible. It returns nil if lend returns nil.
func (l *lent) get(n, most int64, lend func(int64) ([]byte, func())) []byte {
	if n > int64(cap(l.mem)) {
		l.drop()
		room := withRoom(n, most)
		if l.mem, l.release = lend(room); l.mem == nil && room > n {
			l.mem, l.release = lend(n)
		}
	}
	if l.mem == nil {
		return nil
	}
	return l.mem[:n]
}

// drop returns the memory to its owner.
func (l *lent) drop() {
	if l.release != nil {
		l.release()
	}
	*l = lent{}
}

// decodeBuf returns the scratch buffer for the decoded bytes of an item.
func (w *worker) decodeBuf(it *item) []byte {
	it.outBuf = resize(it.outBuf, w.size)
	return it.outBuf
}

// resize returns buf with length n, or a new slice if its capacity is too small.
func resize(buf []byte, n int64) []byte {
	if int64(cap(buf)) < n {
		return make([]byte, n)
	}
	return buf[:n]
}

// resizeEncoded is like resize for an encoded chunk of at most most bytes.
func resizeEncoded(buf []byte, n, most int64) []byte {
	if int64(cap(buf)) < n {
		return make([]byte, n, withRoom(n, most))
	}
	return buf[:n]
}

// withRoom returns the size of a buffer for an encoded chunk of n bytes. It has room for
// slightly larger chunks of up to most bytes, because chunks differ in size.
func withRoom(n, most int64) int64 { return max(n, min(n+n/8, most)) }

func (w *worker) failItem(i int, op string, err error) {
	if w.err == nil {
		w.err = chunkError(op, w.where[i].Key, err)
	}
}
