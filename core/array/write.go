package array

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Write writes the elements of from, in stored byte order, to sel. shape is the shape of
// the array after the write. Write returns errors of manifest.AsWriter, such as
// ncerr.ErrReadOnly, of Update, of the codecs and of Env.Check. After an error some of
// the chunks may have been written.
//
// Write copies parts of chunks to Env.Buffer, which stores them later, unless the array
// has shards, its elements vary in size, or a codec converts them: see [WriteBuffer]. If
// Env.Buffer cannot store these parts, Write does not return the error; see
// [WriteBuffer.Flush].
func (a *Array) Write(ctx context.Context, sel chunk.Selection, shape []int64, from Slab) error {
	t, err := a.newWrite(sel, shape, from)
	if err != nil {
		return err
	}
	if a.buffers(t) {
		return a.env.Buffer.write(ctx, t)
	}
	return a.writeThrough(ctx, t)
}

// WriteThrough is like [Array.Write] but stores all chunks before it returns. only, if not
// nil, selects the chunks to write, in C order. WriteThrough does not change Env.Buffer,
// which must not hold any of the elements to write.
func (a *Array) WriteThrough(ctx context.Context, sel chunk.Selection, shape []int64, from Slab, only []bool) error {
	t, err := a.newWrite(sel, shape, from)
	if err != nil {
		return err
	}
	t.only = only
	return a.writeThrough(ctx, t)
}

func (a *Array) newWrite(sel chunk.Selection, shape []int64, from Slab) (*transfer, error) {
	target, err := manifest.AsWriter(a.source)
	if err != nil {
		return nil, err
	}
	t, err := a.newTransfer(sel, shape, from)
	if err != nil {
		return nil, err
	}
	t.target = target
	return t, nil
}

// writeThrough stores the chunks of t.
func (a *Array) writeThrough(ctx context.Context, t *transfer) error {
	a.env.Cache.beginWrite(&a.cached)
	defer a.env.Cache.endWrite(&a.cached)
	if unit := t.target.Units(); unit.Rank() > 0 {
		t.bounds = slices.Clone(t.shape)
		a.maximizeShared(t.bounds)
		if err := t.group(unit); err != nil {
			return err
		}
	}
	return t.run(ctx, writeBatch)
}

// writeBatch writes the chunks of one batch.
func writeBatch(ctx context.Context, w *worker) error {
	w.changes = w.changes[:0]
	for i := range w.n {
		if w.t.only == nil || w.t.only[w.numbers[i]] {
			w.changes = append(w.changes, manifest.Change{Index: w.indexes[i], Tag: i})
		}
	}
	if len(w.changes) == 0 {
		return nil
	}
	for i := range w.changes {
		w.items[w.changes[i].Tag].vet = false
	}
	if err := w.t.target.Update(ctx, w.changes, w); err != nil {
		for i := range w.n {
			if w.items[i].vet && w.t.clear == nil {
				w.t.a.env.OwnFailed(w.indexes[i])
			}
		}
		return err
	}
	for i := range w.n {
		if c := w.part(i); c != nil {
			c.stored = c.refused == nil
		}
	}
	return nil
}

// Plan implements manifest.Editor. It sets Part for chunks that the write does not cover
// completely. Chunks beyond the lengths of dimensions that no other process has extended
// need not be kept.
func (w *worker) Plan(changes []manifest.Change) (grid, known []int64, batch int) {
	a, part, rank := w.t.a, false, len(w.t.shape)
	w.shapes = append(append(w.shapes[:0], w.t.shape...), w.t.shape...)
	known, grid = w.shapes[:rank], w.shapes[rank:]
	a.extend(known)
	copy(grid, known)
	a.maximizeShared(grid)
	stored := a.env.stored()
	for k := range changes {
		ch := &changes[k]
		if w.t.clear != nil {
			ch.Part, ch.Whole, w.items[ch.Tag].vet = true, true, true
		} else {
			ch.Part = !w.covers(ch.Tag, grid)
			ch.Whole = ch.Part && w.covers(ch.Tag, known)
			w.items[ch.Tag].vet = a.noteOwn(ch.Index, stored)
		}
		ch.Limit, ch.Alloc = w.maxStored(0), w.items[ch.Tag].alloc
		ch.MaySkip = w.room < w.size || w.t.parts != nil || w.t.clear != nil
		part = part || ch.Part
	}
	if part && a.env.OnPartialWrite != nil {
		a.env.OnPartialWrite()
	}
	for d := range known {
		known[d], grid[d] = a.meta.Grid.Len(d, known[d]), a.meta.Grid.Len(d, grid[d])
	}
	return grid, known, int(w.t.batch)
}

// covers reports whether the write sets all elements of the chunk of item i inside shape.
func (w *worker) covers(i int, shape []int64) bool {
	if c := w.part(i); c != nil {
		return c.covers(shape)
	}
	return w.t.plan.Covers(w.items[i].proj, shape)
}

// maximizeShared sets the lengths of the dimensions that other processes may have
// extended to math.MaxInt64.
func (a *Array) maximizeShared(shape []int64) {
	if a.env.Shared != nil {
		maximize(shape, a.env.Shared())
	}
}

// maximize sets the selected lengths to math.MaxInt64.
func maximize(shape []int64, which []bool) {
	for d, yes := range which {
		if yes {
			shape[d] = math.MaxInt64
		}
	}
}

// extend raises the lengths in shape to those that other writes of this process may have
// reached.
func (a *Array) extend(shape []int64) {
	if a.env.ExtendShape != nil {
		a.env.ExtendShape(shape)
	}
}

// part returns the buffered chunk of item i, or nil if the slab contains its elements.
func (w *worker) part(i int) *bufferedChunk {
	if w.t.parts == nil {
		return nil
	}
	return w.t.parts[w.numbers[i]]
}

// Edit implements manifest.Editor. It copies the written elements over the old chunks
// and encodes the result.
func (w *worker) Edit(ctx context.Context, changes []*manifest.Change) error {
	w.vetted = false
	// Check after the reads, to verify that the chunks belong to the opened dataset.
	if err := w.t.a.env.check(ctx); err != nil {
		return err
	}
	if err := w.checkAbsent(ctx, changes); err != nil {
		return err
	}
	edit := w.editFixed
	if w.t.varies {
		edit = w.editText
	}
	if err := edit(ctx, changes); err != nil {
		return err
	}
	return w.encode(ctx, changes)
}

// checkAbsent fails if the store has one of the missing chunks under another key.
func (w *worker) checkAbsent(ctx context.Context, changes []*manifest.Change) error {
	absent := func(ch *manifest.Change) bool { return ch.Part && !ch.Whole && !ch.Exists }
	var indexes [][]int64
	for _, ch := range changes {
		if absent(ch) {
			indexes = append(indexes, ch.Index)
		}
	}
	err := w.t.a.source.CheckMissing(ctx, indexes, w.t.a.env.Grid())
	if w.t.parts == nil || ncerr.KindOf(err) != ncerr.ErrMetadata {
		return err
	}
	for _, ch := range changes {
		if !absent(ch) {
			continue
		}
		if err := w.refuse(ch, err); err != nil {
			return err
		}
	}
	return nil
}

// editFixed sets New of each change to a decoded chunk of fixed-size elements. Change k
// uses the scratch memory of item k, so that the memory does not grow with the number of
// chunks in a unit.
func (w *worker) editFixed(ctx context.Context, changes []*manifest.Change) error {
	w.jobs, w.jobItem = w.jobs[:0], w.jobItem[:0]
	for k, ch := range changes {
		it := &w.items[ch.Tag]
		part := w.part(ch.Tag)
		if part != nil && part.count == int64(len(part.written)) {
			it.direct = part.data
		} else if out, _, n, one := w.mover.Contiguous(it.proj); part == nil && one && n == w.size && !ch.Part {
			it.direct = w.t.Raw[out : out+n]
		}
		if it.direct != nil {
			ch.New = it.direct
			continue
		}
		ch.New = w.newBuf(&w.items[k])
		switch {
		case ch.Skip: // checkAbsent refused the change
		case ch.Damage != nil:
			if err := w.refuse(ch, w.damageReason(ch)); err != nil {
				return err
			}
		case !ch.Exists:
			if ch.Part || part != nil || !w.t.plan.Whole(it.proj) {
				chunk.Repeat(ch.New, w.t.fill)
			}
		case w.pipe.Empty():
			if int64(len(ch.Old)) == w.size {
				copy(ch.New, ch.Old)
			} else if err := w.replaceDamaged(ch, wrongSize(len(ch.Old), w.size)); err != nil {
				return err
			}
		default:
			w.jobs = append(w.jobs, codecdriver.Job{Src: ch.Old, Dst: ch.New, Limit: w.size})
			w.jobItem = append(w.jobItem, k)
		}
	}
	err := w.runJobs(ctx, w.pipe.DecodeMany, func(k int, out []byte, err error) error {
		ch := changes[w.jobItem[k]]
		switch {
		case err != nil:
			return w.replaceDamaged(ch, err)
		case int64(len(out)) != w.size:
			return w.replaceDamaged(ch, wrongSize(len(out), w.size))
		case !same(out, ch.New):
			copy(ch.New, out)
		}
		return nil
	})
	if err == nil {
		err = w.vetFixed(ctx, changes)
	}
	if err != nil {
		return err
	}
	for _, ch := range changes {
		switch it := &w.items[ch.Tag]; {
		case it.direct != nil, w.t.clear != nil:
		case w.t.parts != nil:
			w.part(ch.Tag).copyTo(ch.New)
		default:
			w.mover.Gather(ch.New, w.t.Raw, it.proj)
		}
	}
	return nil
}

// largeEncoded is the size in bytes of the largest possible encoded chunk from which
// memory for it is allocated only if a quarter of that memory is not enough.
const largeEncoded = 16 << 20

// encode replaces the decoded chunks in New with encoded ones.
func (w *worker) encode(ctx context.Context, changes []*manifest.Change) error {
	pipe := w.pipe
	if pipe.Empty() {
		return nil
	}
	for i := range w.items {
		w.items[i].encoded = false
	}
	most := pipe.MaxEncoded()
	if most >= largeEncoded && pipe.Local() && !w.t.varies && !w.t.a.expands.Load() {
		if err := w.encodeInto(ctx, changes, most/4, true); err != nil {
			return err
		}
	}
	return w.encodeInto(ctx, changes, most, false)
}

// encodeInto encodes the chunks that are not encoded yet, each in at most limit bytes. If
// try is set, chunks that need more stay as they are.
func (w *worker) encodeInto(ctx context.Context, changes []*manifest.Change, limit int64, try bool) error {
	pipe := w.pipe
	w.jobs, w.jobItem = w.jobs[:0], w.jobItem[:0]
	for k, ch := range changes {
		it := &w.items[k]
		if ch.Skip || it.encoded {
			continue
		}
		job := codecdriver.Job{Src: ch.New}
		if !w.t.varies {
			job.Limit = limit
		}
		switch {
		case !pipe.Local():
			job.Shared = true // the result is only copied
		case !w.t.varies:
			it.inBuf = resize(it.inBuf, limit)
			job.Dst = it.inBuf
		}
		w.jobs, w.jobItem = append(w.jobs, job), append(w.jobItem, k)
	}
	return w.runJobs(ctx, pipe.EncodeMany, func(k int, out []byte, err error) error {
		ch, it := changes[w.jobItem[k]], &w.items[w.jobItem[k]]
		if try && ncerr.KindOf(err) == ncerr.ErrShortBuffer {
			w.t.a.expands.Store(true)
			return nil
		}
		it.encoded = true
		if err != nil {
			return w.deferChange(ch, err)
		}
		if ch.New = out; !same(out, w.jobs[k].Dst) { // out is valid only during this call
			ch.New = w.bodyBuf(it, int64(len(out)))
			copy(ch.New, out)
		}
		return nil
	})
}

// runJobs runs the jobs of w. It uses one call if the codecs are in another process,
// and otherwise one call per job, because other workers run in parallel. If there are
// few units, it runs several jobs in parallel.
func (w *worker) runJobs(ctx context.Context, many func(context.Context, []codecdriver.Job, codecdriver.Sink) error, done func(k int, out []byte, err error) error) error {
	var failed error
	step := 1
	if w.t.spread > 1 && len(w.jobs) > 1 && w.pipe.Local() {
		return w.runJobsParallel(ctx, many, done)
	}
	if !w.pipe.Local() {
		step = max(1, len(w.jobs))
	}
	for base := 0; base < len(w.jobs) && failed == nil; base += step {
		err := many(ctx, w.jobs[base:base+step], func(k int, out []byte, err error) {
			if err = done(base+k, out, err); failed == nil {
				failed = err
			}
		})
		if err != nil {
			return err
		}
	}
	return failed
}

// runJobsParallel runs the jobs of w in parallel.
func (w *worker) runJobsParallel(ctx context.Context, many func(context.Context, []codecdriver.Job, codecdriver.Sink) error, done func(k int, out []byte, err error) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(int(w.t.spread))
	for k := range w.jobs {
		g.Go(func() error {
			var failed error
			err := many(ctx, w.jobs[k:k+1], func(_ int, out []byte, err error) { failed = done(k, out, err) })
			return cmp.Or(err, failed)
		})
	}
	return g.Wait()
}

// deferChange defers a chunk that failed with err to a pass with more room. In the last
// pass it returns the error of the chunk.
func (w *worker) deferChange(ch *manifest.Change, err error) error {
	if k := ncerr.KindOf(err); (k == ncerr.ErrLimit || k == ncerr.ErrCorrupt) && w.postpone(ch.Tag) {
		ch.Skip = true
		return nil
	}
	return w.refuse(ch, w.outOfRoom(err))
}

// replaceDamaged handles a stored chunk that cannot be decoded. If the chunk is damaged
// and the write may replace it as a whole, replaceDamaged fills New with the fill value.
// Otherwise it refuses the change.
func (w *worker) replaceDamaged(ch *manifest.Change, err error) error {
	if !ch.Whole || ncerr.KindOf(err) != ncerr.ErrCorrupt {
		return w.refuse(ch, err)
	}
	chunk.Repeat(ch.New, w.t.fill)
	return nil
}

// damageReason returns the reason why a stored chunk cannot be read.
func (w *worker) damageReason(ch *manifest.Change) error {
	if ncerr.KindOf(ch.Damage) == ncerr.ErrLimit {
		return tooLong(w.maxStored(ch.Tag))
	}
	return ch.Damage
}

// refuse records that a chunk of the buffer cannot be decoded or encoded, and skips that
// chunk, so that other chunks are stored. For a chunk that is not buffered it returns err.
func (w *worker) refuse(ch *manifest.Change, err error) error {
	err = chunkError("write", ch.Key, err)
	if c := w.part(ch.Tag); c != nil && !ncerr.IsContext(err) {
		c.refused, ch.Skip = err, true
		return nil
	}
	return err
}

// same reports whether a and b start at the same address.
func same(a, b []byte) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }

// chunkError adds the key of a chunk to an error. An error of a codec already has the id
// of the codec as its key, so chunkError wraps it.
func chunkError(op, key string, err error) error {
	var e *ncerr.Error
	if key = zmap.Path(key); errors.As(err, &e) && !ncerr.IsContext(err) && (e.Op == "encode" || e.Op == "decode") {
		out := ncerr.New(ncerr.KindOf(err), op, key, err)
		out.Retryable, out.RetryAfter = ncerr.Retry(err)
		return out
	}
	return ncerr.Wrap(op, key, err)
}

// wrongSize returns the error for a decoded chunk of n bytes instead of size.
func wrongSize(n int, size int64) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has %d bytes, but its shape requires %d", n, size)
}
