package nczarr

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// writeRaw writes from, elements of the stored type in stored byte order, to
// sel. shape is the variable's shape after growth; only, when not nil, says
// which chunks are written, in C order.
func (v *Var) writeRaw(ctx context.Context, sel chunk.Selection, shape []int64, from slab, only []bool) error {
	if err := v.open(ctx); err != nil {
		return err
	}
	t, err := v.newTransfer(sel, shape, from)
	if err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	t.only = only
	if err := v.group.ds.noteVar(ctx, v); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if err := v.takePlace(ctx); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	v.group.ds.wrote.Store(true)
	return ncerr.Wrap("write", v.Path(), t.run(ctx, writeBatch))
}

// writeBatch writes the chunks of one batch.
func writeBatch(ctx context.Context, w *worker) error {
	if err := w.locate(ctx); err != nil {
		return err
	}
	for i := range w.n {
		if w.t.only != nil && !w.t.only[w.first+int64(i)] {
			continue
		}
		err := w.writeChunk(ctx, i)
		if k := ncerr.KindOf(err); (k == ncerr.ErrLimit || k == ncerr.ErrCorrupt) && w.postpone(i) {
			continue
		}
		if err != nil {
			return ncerr.Wrap("write", zmap.Path(w.where[i].Key), err)
		}
	}
	return nil
}

// writeChunk writes chunk i under the lock of its key: a chunk that is written
// whole must not land between the reading and the writing back of a part.
func (w *worker) writeChunk(ctx context.Context, i int) error {
	lock := w.t.v.group.ds.locks.of(w.where[i].Key)
	lock.Lock()
	defer lock.Unlock()
	whole := w.t.plan.Covers(w.items[i].proj, w.bounds())
	if whole && !w.looked {
		if err := w.t.v.group.ds.stillOpened(ctx); err != nil {
			return err
		}
		w.looked = true
	}
	switch {
	case w.t.varies:
		return w.writeChunkText(ctx, i, whole)
	case whole:
		return w.writeWhole(ctx, i)
	}
	return w.writePart(ctx, i)
}

// bounds gives the shape beyond which no write of this process has gone: what
// lies in a chunk outside it has to be kept by nobody.
func (w *worker) bounds() []int64 {
	w.shape = append(w.shape[:0], w.t.shape...)
	for i, d := range w.t.v.dims {
		w.shape[i] = max(w.shape[i], d.reach.Load())
	}
	return w.shape
}

// writeWhole writes a chunk of which nothing has to be kept.
func (w *worker) writeWhole(ctx context.Context, i int) error {
	it := &w.items[i]
	if out, _, n, one := w.mover.Contiguous(it.proj); one && n == w.t.size {
		return w.put(ctx, i, w.t.raw[out:out+n], nil)
	}
	buf := w.outOf(it)
	if !w.t.plan.Whole(it.proj) {
		chunk.Repeat(buf, w.t.fill)
	}
	w.mover.Gather(buf, w.t.raw, it.proj)
	return w.put(ctx, i, buf, nil)
}

// conflictTries is how often a partial chunk is read and written again when
// somebody else changed it in between.
const conflictTries = 16

// writePart reads a chunk, changes a part of it and writes it back, with the
// version that was read where the store can.
func (w *worker) writePart(ctx context.Context, i int) error {
	return w.change(func(opts *driver.PutOptions, caps driver.Capabilities) error {
		if err := w.readForChange(ctx, i, opts, caps); err != nil {
			return err
		}
		it := &w.items[i]
		w.mover.Gather(it.outBuf, w.t.raw, it.proj)
		return w.put(ctx, i, it.outBuf, opts)
	})
}

// warnSingleWriter says once that changes of partial chunks are not guarded
// against other processes.
func (d *Dataset) warnSingleWriter() {
	if !d.opts.SingleWriter && d.warned.CompareAndSwap(false, true) {
		d.log.Warn("partial chunks are read, changed and written back, and the store cannot detect another writer: state SingleWriter if there is none", "store", d.loc.Driver)
	}
}

// readForChange reads chunk i decoded into its scratch (fill where there is
// none), and sets the condition for writing it back.
func (w *worker) readForChange(ctx context.Context, i int, opts *driver.PutOptions, caps driver.Capabilities) error {
	buf := w.outOf(&w.items[i])
	data, found, err := w.current(ctx, i, opts, caps)
	if err != nil {
		return err
	}
	if !found {
		chunk.Repeat(buf, w.t.fill)
		return nil
	}
	n := len(data)
	if w.t.e.pipe.Empty() {
		if n == len(buf) {
			copy(buf, data)
		}
	} else if n, err = w.t.e.pipe.Decode(ctx, buf, data); err != nil {
		return err
	}
	if n != len(buf) {
		return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the chunk has %d bytes, its shape makes %d", n, len(buf))
	}
	return nil
}

// put encodes a decoded chunk and writes it.
func (w *worker) put(ctx context.Context, i int, decoded []byte, opts *driver.PutOptions) error {
	it := &w.items[i]
	body := decoded
	if pipe := w.t.e.pipe; !pipe.Empty() {
		it.inBuf = sized(it.inBuf, pipe.MaxEncoded())
		n, err := pipe.Encode(ctx, it.inBuf, decoded)
		if err != nil {
			return err
		}
		body = it.inBuf[:n]
	}
	_, err := w.t.v.group.ds.m.Put(ctx, w.where[i].Key, driver.Bytes(body), opts)
	return err
}
