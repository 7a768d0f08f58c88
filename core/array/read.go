package array

import (
	"bytes"
	"context"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Read reads sel, which must lie within shape, into array, in native byte order.
// Elements outside bounds read as fill; a nil bounds means no limit. If found is not nil,
// Read sets *found to report which chunks of sel exist, in C order. absent reports
// whether any chunk is missing.
//
// A chunk that was read in part may come from the cache: it has the content that it had
// when it was decoded, or that this Array wrote since then. See [Array.Forget].
//
// An error about a chunk contains its key. It is ncerr.ErrCorrupt, ncerr.ErrNoObject for
// a missing chunk that the Source marked as Required, or an error of the store or the
// codecs. If an object was removed after the Source located it, Read retries once. If an
// object changed, as shards do whenever one of their chunks is written, Read retries
// several times.
//
// Read first stores the chunks of sel that are in Env.Buffer, and fails if it cannot store
// them.
func (a *Array) Read(ctx context.Context, sel chunk.Selection, shape, bounds []int64, array Slab, found *[]bool) (absent bool, err error) {
	err = a.retry(func() error {
		absent, err = a.read(ctx, sel, shape, bounds, array, found)
		return err
	})
	return absent, err
}

// conflictTries is the maximum number of attempts at a read that conflicts with
// concurrent writers.
const conflictTries = 16

// retry calls read, and calls it again if cached information of the Source may have been
// outdated.
func (a *Array) retry(read func() error) (err error) {
	a.source.Forget(false)
	for try := range conflictTries {
		err = read()
		if k := ncerr.KindOf(err); k != ncerr.ErrConflict && (k != ncerr.ErrNoObject || try > 0) {
			break
		}
		a.source.Forget(true)
	}
	return err
}

func (a *Array) read(ctx context.Context, sel chunk.Selection, shape, bounds []int64, array Slab, found *[]bool) (absent bool, err error) {
	t, err := a.newTransfer(sel, shape, array)
	if err != nil {
		return false, err
	}
	if err := a.storeOverlapping(ctx, t.plan); err != nil {
		return false, err
	}
	if found != nil {
		t.found = make([]bool, t.plan.Len())
		*found = t.found
	}
	if unit := manifest.Whole(a.source); unit.Rank() > 0 {
		if err := t.group(unit); err != nil {
			return false, err
		}
	}
	t.textMost = min(a.size, budget.From(ctx, a.env.Budget).MaxResult())
	t.version, t.keep = a.env.Cache.version(&a.cached), a.env.Cache.holds(t)
	if err := t.run(ctx, readBatch); err != nil {
		return false, err
	}
	if err := t.checkAbsent(ctx); err != nil {
		return false, err
	}
	t.fillBeyond(bounds)
	t.swap()
	return t.absent.Load(), nil
}

// checkAbsent fails if no chunk of the array was ever found and the store has chunks
// under other keys.
func (t *transfer) checkAbsent(ctx context.Context) error {
	if t.a.source.SeparatorKnown() {
		return nil
	}
	proj := make(chunk.Projection, t.plan.Rank())
	indexes := make([][]int64, min(t.plan.Len(), manifest.MissingMax))
	for i := range indexes {
		t.plan.At(int64(i), proj)
		indexes[i] = make([]int64, len(proj))
		for d, s := range proj {
			indexes[i][d] = s.Index
		}
	}
	return t.a.source.CheckMissing(ctx, indexes, t.a.env.Grid())
}

// readBatch reads, decodes and scatters one batch.
func readBatch(ctx context.Context, w *worker) error {
	placed := w.placeCached()
	if placed == w.n || w.err != nil {
		return w.err
	}
	if err := w.locate(ctx, placed); err != nil {
		return err
	}
	w.request()
	if err := w.get(ctx); err != nil {
		return err
	}
	if err := w.getMixed(ctx); err != nil {
		return err
	}
	return w.decode(ctx)
}

// placeCached copies the chunks of the batch that are in the cache to the slab. It
// returns their number.
func (w *worker) placeCached() (n int) {
	c := w.t.a.env.Cache
	for i := range w.n {
		it := &w.items[i]
		it.placed, it.keep = false, c != nil && (w.t.varies || w.size <= c.most) && !w.t.plan.Covers(it.proj, w.t.shape)
		if !it.keep {
			continue
		}
		w.key = cacheKey(w.key[:0], w.indexes[i])
		found := c.find(&w.t.a.cached, w.key)
		if found == nil {
			it.keep = w.t.keep
			continue
		}
		it.placed, w.where[i] = true, manifest.Location{} // an error must not name a chunk of an earlier batch
		n++
		w.recordFound(i)
		if w.t.varies {
			w.placeText(i, it, found.data)
		} else {
			w.mover.Scatter(w.t.Raw, found.data, it.proj)
		}
		c.done(found)
	}
	return n
}

// cache adds the decoded chunk of item i to the cache. If data fills *buf, the cache takes
// ownership of that memory, and *buf is set to other memory or nil. Otherwise a copy of data
// is added, so that the cache holds no unused memory.
func (w *worker) cache(i int, data []byte, buf *[]byte) {
	c := w.t.a.env.Cache
	w.key = cacheKey(w.key[:0], w.indexes[i])
	switch {
	case same(data, *buf) && cap(data) == len(data):
		*buf = c.add(&w.t.a.cached, w.key, w.t.version, data)
	case int64(len(data)) <= c.most:
		c.add(&w.t.a.cached, w.key, w.t.version, bytes.Clone(data))
	}
}

// get sends the requests of the batch to their Maps. It sends them in one call if that
// is cheaper, and otherwise one by one, because the workers already run in parallel.
func (w *worker) get(ctx context.Context) error {
	for w.base = 0; w.base < len(w.reqs) && w.err == nil; {
		if w.skipPiece() {
			w.base++
			continue
		}
		n := w.group()
		if err := w.t.a.get(ctx, w.where[w.jobItem[w.base]].Map, w.reqs[w.base:w.base+n], w.onGet, &w.err); err != nil {
			return err
		}
		w.base += n
	}
	return w.err
}

// get sends requests to m. It stops when sink has set *failed.
func (a *Array) get(ctx context.Context, m *zmap.Map, reqs []zmap.GetRequest, sink driver.GetSink, failed *error) error {
	if a.env.BatchGets && len(reqs) > 1 {
		return m.GetMany(ctx, reqs, sink)
	}
	for k := range reqs {
		data, info, err := m.Get(ctx, reqs[k].Key, &reqs[k].Opts, reqs[k].Alloc)
		if ncerr.IsContext(err) {
			return err
		}
		if sink(k, data, info, err); *failed != nil {
			return *failed
		}
	}
	return nil
}

// locate sets the locations of the chunks of the batch, except those that came from the
// cache. placed is the number of chunks that came from the cache.
func (w *worker) locate(ctx context.Context, placed int) error {
	if placed == 0 {
		return w.t.a.source.Locate(ctx, w.indexes[:w.n], w.where[:w.n])
	}
	var left []int
	var indexes [][]int64
	for i := range w.n {
		if !w.items[i].placed {
			left, indexes = append(left, i), append(indexes, w.indexes[i])
		}
	}
	where := make([]manifest.Location, len(left))
	err := w.t.a.source.Locate(ctx, indexes, where)
	for k, i := range left {
		w.where[i] = where[k]
	}
	return err
}

// request adds requests for the chunks of the batch that must be read, and sets the
// elements of chunks that are known to be absent to the fill value.
func (w *worker) request() {
	w.reqs, w.jobItem = w.reqs[:0], w.jobItem[:0]
	for i := range w.n {
		it, at := &w.items[i], &w.where[i]
		out, _, n, one := w.mover.Contiguous(it.proj)
		one = one && !w.t.varies
		if one && n == w.size && w.t.plan.Whole(it.proj) {
			it.direct = w.t.Raw[out : out+n]
		}
		switch {
		case it.placed:
		case at.Absent:
			if at.Key != "" {
				w.t.absent.Store(true)
			}
			w.fillItem(it)
		case at.Inline != nil:
			it.have, it.in = true, at.Inline
		case w.cut(i):
			w.requestPieces(i)
		default:
			w.requestWhole(i)
		}
	}
}

// requestWhole adds the request for the whole chunk of item i.
func (w *worker) requestWhole(i int) {
	at := &w.where[i]
	req := zmap.GetRequest{Key: at.Key, Alloc: w.items[i].alloc}
	req.Opts.Range, req.Opts.IfMatch, req.Opts.Limit = at.Range, at.Version, w.maxStored(i)
	w.addRequest(req, i)
}

// maxStored returns the maximum size in bytes of the stored chunk of item i in this pass.
// Requests include this limit, because a store may not report sizes in advance.
func (w *worker) maxStored(i int) int64 {
	n := maxStored(w.pipe, w.where[i].FilterMask)
	if w.room < w.size {
		n = min(n, w.room)
	}
	return n
}

// tooLong returns the error for a stored chunk of more than limit bytes.
func tooLong(limit int64) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the stored chunk exceeds the maximum of %d bytes for its codecs", limit)
}

// addRequest adds a request for item i to the batch.
func (w *worker) addRequest(req zmap.GetRequest, i int) {
	w.reqs, w.jobItem = append(w.reqs, req), append(w.jobItem, i)
}

// handleResult handles the result of request base+k.
func (w *worker) handleResult(k int, data []byte, info zmap.Info, err error) {
	k += w.base
	i := w.jobItem[k]
	it, at := &w.items[i], &w.where[i]
	if it.cut.N > 0 && w.handlePiece(i, info, err) {
		return
	}
	switch {
	case err == nil:
		it.have, it.in = true, data
	case ncerr.KindOf(err) == ncerr.ErrNotFound && !at.Required:
		w.t.absent.Store(true)
		w.fillItem(it)
	case ncerr.KindOf(err) == ncerr.ErrLimit && w.postpone(i):
	case ncerr.KindOf(err) == ncerr.ErrLimit && it.cut.N > 0:
		w.failItem(i, "read", err)
	default:
		w.failItem(i, "read", w.outOfRoom(readError(at, w.maxStored(i), err)))
	}
}

// readError returns the error to report for a chunk if a request for it failed with err.
// limit is the limit of the request in bytes.
func readError(at *manifest.Location, limit int64, err error) error {
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound:
		return ncerr.New(ncerr.ErrNoObject, "", "", err)
	case ncerr.ErrLimit:
		return tooLong(limit)
	case ncerr.ErrRange:
		return ncerr.New(ncerr.ErrCorrupt, "", zmap.Path(at.Key), err)
	}
	return err
}

// decode decodes the chunks that were read and copies them to the slab.
func (w *worker) decode(ctx context.Context) error {
	w.jobs, w.jobItem = w.jobs[:0], w.jobItem[:0]
	for i := range w.n {
		it := &w.items[i]
		if it.have {
			w.recordFound(i)
		}
		switch {
		case !it.have:
		case w.pipe.Empty():
			w.placeRaw(i, it)
		default:
			job := codecdriver.Job{Src: it.in, Dst: it.direct, Limit: w.room, Skip: w.where[i].FilterMask}
			if job.Dst == nil && !w.t.varies {
				if w.pipe.Local() || it.keep {
					job.Dst = w.decodeBuf(it)
				} else {
					job.Shared = true // place only copies the result
				}
			}
			w.jobs = append(w.jobs, job)
			w.jobItem = append(w.jobItem, i)
		}
	}
	if w.err != nil {
		return w.err
	}
	return w.decodeJobs(ctx)
}

// recordFound records that the chunk of item i exists.
func (w *worker) recordFound(i int) {
	if w.t.found != nil {
		w.t.found[w.numbers[i]] = true
	}
	w.t.a.source.Found()
}

// decodeJobs decodes the batch. It uses one call if the codecs are in another process,
// and otherwise one call per chunk, because a call with several chunks would start
// goroutines although the workers already run in parallel.
func (w *worker) decodeJobs(ctx context.Context) error {
	pipe := w.pipe
	w.base = 0
	if !pipe.Local() && len(w.jobs) > 0 {
		if err := pipe.DecodeMany(ctx, w.jobs, w.onDecode); err != nil {
			return err
		}
		return w.err
	}
	for w.base = range w.jobs {
		if err := pipe.DecodeMany(ctx, w.jobs[w.base:w.base+1], w.onDecode); err != nil {
			return err
		}
	}
	return w.err
}

// placeRaw copies a chunk stored without codecs to the slab.
func (w *worker) placeRaw(i int, it *item) {
	if it.cut.N > 0 {
		w.placePieces(it)
		return
	}
	if it.direct != nil && len(it.in) == len(it.direct) && same(it.in, it.direct) {
		return // the chunk was read into the slab
	}
	w.place(i, it, it.in)
	if it.keep && w.err == nil && w.where[i].Inline == nil {
		w.cache(i, it.in, &it.inBuf)
	}
}

// handleDecoded handles the result of job base+k.
func (w *worker) handleDecoded(k int, out []byte, err error) {
	i := w.jobItem[w.base+k]
	if ncerr.KindOf(err) == ncerr.ErrCorrupt && w.postpone(i) { // the chunk may only be too large for this pass
		return
	}
	if err != nil {
		w.failItem(i, "read", w.outOfRoom(decodeError(err)))
		return
	}
	it := &w.items[i]
	if w.t.varies {
		w.placeText(i, it, out)
	} else {
		w.place(i, it, out)
	}
	if it.keep && w.err == nil {
		w.cache(i, out, &it.outBuf)
	}
}

// decodeError wraps the error of a codec, which has the id of the codec as its key. The
// result has no key, so that the caller can add the key of the chunk.
func decodeError(err error) error {
	if ncerr.IsContext(err) {
		return err
	}
	return ncerr.New(ncerr.KindOf(err), "", "", err)
}

// place scatters the decoded bytes of item i.
func (w *worker) place(i int, it *item, out []byte) {
	if int64(len(out)) != w.size {
		w.failItem(i, "read", wrongSize(len(out), w.size))
		return
	}
	if it.direct != nil && same(out, it.direct) {
		return // the chunk was decoded into the slab
	}
	w.mover.Scatter(w.t.Raw, out, it.proj)
}

// fillBeyond replaces elements outside bounds with fill. A nil bounds means no limit.
func (t *transfer) fillBeyond(bounds []int64) {
	count := t.sel.Count
	for d, end := range bounds {
		first := int64(0) // first position beyond end
		if t.sel.Start[d] < end {
			first = (end-1-t.sel.Start[d])/t.step(d) + 1
		}
		if first >= count[d] {
			continue
		}
		inner := chunk.Product(count[d+1:])
		for o := range chunk.Product(count[:d]) {
			t.setFill((o*count[d]+first)*inner, (o+1)*count[d]*inner)
		}
	}
}

func (t *transfer) step(d int) int64 {
	if t.sel.Stride == nil {
		return 1
	}
	return t.sel.Stride[d]
}

// setFill sets the elements in [from, to) to the fill value.
func (t *transfer) setFill(from, to int64) {
	if t.varies {
		fill := t.fillText()
		for i := from; i < to; i++ {
			t.Text[i] = fill
		}
		return
	}
	size := int64(t.a.meta.DType.Size) // not len(t.fill): the fill value may be nil
	chunk.Repeat(t.Raw[from*size:to*size], t.fill)
}
