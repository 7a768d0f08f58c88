package array

import (
	"cmp"
	"context"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Write writes the elements of from, in stored byte order, to sel. shape is the shape of
// the array after the write. only, if not nil, selects the chunks to write, in C order.
// The error is ncerr.ErrReadOnly if the Source is not a manifest.Writer, or an error of
// Update, the codecs or Env.Check. After an error some of the chunks may have been
// written.
func (a *Array) Write(ctx context.Context, sel chunk.Selection, shape []int64, from Slab, only []bool) error {
	target, err := manifest.AsWriter(a.source)
	if err != nil {
		return err
	}
	t, err := a.newTransfer(sel, shape, from)
	if err != nil {
		return err
	}
	t.target, t.only = target, only
	a.env.Cache.beginWrite(&a.cached)
	defer a.env.Cache.endWrite(&a.cached)
	if unit := target.Units(); unit.Rank() > 0 {
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
	return w.t.target.Update(ctx, w.changes, w)
}

// Plan implements manifest.Editor. It sets Part for chunks that the write does not cover
// completely. Chunks beyond bounds need not be kept.
func (w *worker) Plan(changes []manifest.Change) (grid []int64, batch int) {
	bounds, part := w.bounds(), false
	for k := range changes {
		ch := &changes[k]
		ch.Part, ch.Limit, ch.Alloc = !w.t.plan.Covers(w.items[ch.Tag].proj, bounds), w.maxStored(0), w.items[ch.Tag].alloc
		ch.MaySkip = w.room < w.size
		part = part || ch.Part
	}
	if part && w.t.a.env.OnPartialWrite != nil {
		w.t.a.env.OnPartialWrite()
	}
	grid = w.shape // no longer needed as bounds
	for d, n := range grid {
		grid[d] = w.t.a.meta.Grid.Len(d, n)
	}
	return grid, int(w.t.batch)
}

// bounds returns the shape that limits all writes in this process. Elements of a chunk
// outside it need not be preserved.
func (w *worker) bounds() []int64 {
	w.shape = append(w.shape[:0], w.t.shape...)
	if reach := w.t.a.env.ExtendShape; reach != nil {
		reach(w.shape)
	}
	return w.shape
}

// Edit implements manifest.Editor. It copies the written elements over the old chunks
// and encodes the result.
func (w *worker) Edit(ctx context.Context, changes []*manifest.Change) error {
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
	var absent [][]int64
	for _, ch := range changes {
		if ch.Part && !ch.Exists {
			absent = append(absent, ch.Index)
		}
	}
	return w.t.a.source.CheckMissing(ctx, absent, w.t.a.env.Grid())
}

// editFixed sets New of each change to a decoded chunk of fixed-size elements. Change k
// uses the scratch memory of item k, so that the memory does not grow with the number of
// chunks in a unit.
func (w *worker) editFixed(ctx context.Context, changes []*manifest.Change) error {
	w.jobs, w.jobItem = w.jobs[:0], w.jobItem[:0]
	for k, ch := range changes {
		it := &w.items[ch.Tag]
		if out, _, n, one := w.mover.Contiguous(it.proj); one && n == w.size && !ch.Part {
			it.direct = w.t.Raw[out : out+n]
			ch.New = it.direct
			continue
		}
		ch.New = w.decodeBuf(&w.items[k])
		switch {
		case ch.TooLong:
			return changeError(ch, tooLong(w.maxStored(ch.Tag)))
		case !ch.Exists:
			if ch.Part || !w.t.plan.Whole(it.proj) {
				chunk.Repeat(ch.New, w.t.fill)
			}
		case w.pipe.Empty():
			if int64(len(ch.Old)) != w.size {
				return changeError(ch, wrongSize(len(ch.Old), w.size))
			}
			copy(ch.New, ch.Old)
		default:
			w.jobs = append(w.jobs, codecdriver.Job{Src: ch.Old, Dst: ch.New, Limit: w.size})
			w.jobItem = append(w.jobItem, k)
		}
	}
	err := w.code(ctx, w.pipe.DecodeMany, func(k int, out []byte, err error) error {
		ch := changes[w.jobItem[k]]
		switch {
		case err != nil:
			return changeError(ch, err)
		case int64(len(out)) != w.size:
			return changeError(ch, wrongSize(len(out), w.size))
		case !same(out, ch.New):
			copy(ch.New, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if it := &w.items[ch.Tag]; it.direct == nil {
			w.mover.Gather(ch.New, w.t.Raw, it.proj)
		}
	}
	return nil
}

// encode replaces the decoded chunks in New with encoded ones.
func (w *worker) encode(ctx context.Context, changes []*manifest.Change) error {
	pipe := w.pipe
	if pipe.Empty() {
		return nil
	}
	w.jobs, w.jobItem = w.jobs[:0], w.jobItem[:0]
	for k, ch := range changes {
		if ch.Skip {
			continue
		}
		job := codecdriver.Job{Src: ch.New}
		if it := &w.items[k]; !w.t.varies {
			it.inBuf = resize(it.inBuf, pipe.MaxEncoded())
			job.Dst, job.Limit = it.inBuf, int64(len(it.inBuf))
		}
		w.jobs, w.jobItem = append(w.jobs, job), append(w.jobItem, k)
	}
	return w.code(ctx, pipe.EncodeMany, func(k int, out []byte, err error) error {
		ch := changes[w.jobItem[k]]
		if err != nil {
			return w.deferChange(ch, err)
		}
		if ch.New = out; !same(out, w.jobs[k].Dst) { // out is valid only during this call
			it := &w.items[w.jobItem[k]]
			it.inBuf = append(it.inBuf[:0], out...)
			ch.New = it.inBuf
		}
		return nil
	})
}

// code runs the jobs of w. It uses one call if the codecs are in another process, and
// otherwise one call per job, because other workers run in parallel. If there are few
// units, it runs several jobs in parallel.
func (w *worker) code(ctx context.Context, many func(context.Context, []codecdriver.Job, codecdriver.Sink) error, done func(k int, out []byte, err error) error) error {
	var failed error
	step := 1
	if w.t.spread > 1 && len(w.jobs) > 1 && w.pipe.Local() {
		return w.codeSpread(ctx, many, done)
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

// codeSpread runs the jobs of w in parallel.
func (w *worker) codeSpread(ctx context.Context, many func(context.Context, []codecdriver.Job, codecdriver.Sink) error, done func(k int, out []byte, err error) error) error {
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
	return changeError(ch, err)
}

// same reports whether a and b start at the same address.
func same(a, b []byte) bool { return unsafe.SliceData(a) == unsafe.SliceData(b) }

func changeError(ch *manifest.Change, err error) error {
	return ncerr.Wrap("write", zmap.Path(ch.Key), err)
}

// wrongSize returns the error for a decoded chunk of n bytes instead of size.
func wrongSize(n int, size int64) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has %d bytes, but its shape requires %d", n, size)
}
