package dataset

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// DefaultMergeGap is the default of Options.MergeGap, in bytes. A fast connection
// transfers about this much in the time of one more concurrent request.
const DefaultMergeGap = 64 << 10

// DefaultChunkCache is the default of Options.ChunkCache, in bytes: two chunks of the
// default size.
const DefaultChunkCache = 32 << 20

// DefaultWriteBuffer is the default of Options.WriteBuffer, in bytes.
const DefaultWriteBuffer = 32 << 20

// engine reads and writes the data of a variable. It opens the array on first use.
type engine struct {
	mu     sync.Mutex // held while opening the array
	array  atomic.Pointer[array.Array]
	once   sync.Once       // guards source
	base   manifest.Source // the chunks, or the shards that contain them
	source manifest.Source
	wraps  []*wrapping // decoders for the levels of shards that are encoded as a whole
	atRoot bool        // the array is the root of the store
}

const (
	maxIndex   = 64 << 20 // maximum bytes of the index of one shard, enough for four million chunks
	maxIndexes = 16 << 20 // maximum bytes of the shard indexes that an array caches
)

func indexOf(s zarr.Shard) manifest.ShardIndex {
	return manifest.ShardIndex{AtStart: s.AtStart, Checksum: s.Checksum, Big: s.Big, Axes: s.Axes}
}

// open returns the array, opening it if necessary. After a failure the next call tries
// again, because a missing plugin may have been installed.
func (v *Var) open(ctx context.Context) (*array.Array, error) {
	e := &v.data
	if a := e.array.Load(); a != nil {
		return a, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.array.Load(); a != nil {
		return a, nil
	}
	meta := v.arrayMeta()
	source := v.source()
	pipe, err := v.openPipeline(ctx, meta.Grid.Largest())
	if err == nil {
		err = v.checkShardFill(ctx)
	}
	for _, w := range e.wraps {
		if err == nil {
			_, err = w.open(ctx)
		}
	}
	if err != nil {
		if pipe != nil {
			_ = pipe.Close() // err is the cause
		}
		if ncerr.KindOf(err) == ncerr.ErrInvalid && !v.defined { // the store, not the caller, supplied the codecs
			return nil, ncerr.New(ncerr.ErrMetadata, "open", join(v.Path(), v.meta.Layout.ArrayDoc()), err)
		}
		return nil, ncerr.Wrap("open", v.Path(), err)
	}
	ds := v.group.ds
	env := ds.env()
	env.Grid, env.ExtendShape, env.Check, env.OpenPipeline = v.grid, v.extendToReached, ds.checkNotReplaced, v.openPipeline
	env.Beyond, env.CheckBuffered = v.beyondStored, ds.checkMarks
	if ds.created && ds.remote() {
		env.Ending = ds.verifyClaimEarly
	}
	for _, dim := range v.dims {
		env.Unlimited = append(env.Unlimited, dim.unlimited)
	}
	shared := env.Unlimited
	if !ds.layout.NCZarr() { // pure Zarr does not record which dimensions are unlimited
		shared = slices.Repeat([]bool{true}, len(v.dims))
	}
	env.Shared = func() []bool {
		if v.isPrivate() {
			return nil
		}
		return shared
	}
	env.Stored, env.Own, env.OwnFailed, env.Vet, env.OnCleared = v.unpublishedBounds, v.sharing.note, v.sharing.noteFailed, v.vet, v.warnCleared
	if !ds.m.Capabilities().IfMatch {
		env.OnPartialWrite = ds.warnSingleWriter
	}
	a := array.New(meta, source, pipe, env)
	e.array.Store(a)
	return a, nil
}

func (v *Var) arrayMeta() *array.Meta {
	m := &array.Meta{DType: v.meta.DType, Fill: v.meta.Fill, Grid: v.meta.ChunkGrid(), Transpose: v.meta.Transpose}
	if m.Stored, _ = v.stored(); v.in != nil {
		m.Offset = v.in.offset
	}
	return m
}

// env returns the settings that all arrays of the dataset share.
func (d *Dataset) env() *array.Env {
	o := &d.opts
	e := &array.Env{
		Workers: o.Workers, InFlight: o.Remote.InFlight, Remote: d.remote(),
		BatchGets: d.readsMany(), MaxChunk: o.Limits.MaxChunk, Budget: o.Budget, MergeGap: o.MergeGap, Cache: d.cache, Buffer: d.buffer,
	}
	if e.InFlight <= 0 {
		e.InFlight = 64
	}
	if e.MergeGap <= 0 {
		e.MergeGap = DefaultMergeGap
	}
	return e
}

// readsMany reports whether one read of many chunks is cheaper than many reads.
func (d *Dataset) readsMany() bool { return d.store.ReadsMany() || d.remote() }

// workers returns the number of requests of about size bytes to send concurrently.
func (d *Dataset) workers(size int64) int { return d.env().Concurrency(size) }

// source returns the source of the variable's chunks.
func (v *Var) source() manifest.Source {
	e := &v.data
	e.once.Do(func() {
		ds := v.group.ds
		e.base = v.objects()
		e.source = e.base
		limit := array.UnitLimit(ds.opts.Limits.MaxChunk, ds.opts.Budget)
		for i, s := range v.meta.Shards {
			grid, _ := v.meta.ShardGrid(i) // ok is true, because the array was parsed or defined
			if s.Around != nil {
				w := &wrapping{ds: ds, steps: stepsOf(s.Around)}
				e.wraps = append(e.wraps, w)
				e.source = manifest.NewWrapped(e.source, limit, w.decode)
			}
			e.source = manifest.NewShards(e.source, grid, indexOf(s), maxIndexes, limit, ds.readsMany())
		}
	})
	return e.source
}

// openPipeline opens the codecs for chunks of the given shape.
func (v *Var) openPipeline(ctx context.Context, chunks []int64) (*codec.Pipeline, error) {
	t, fill := v.stored()
	meta := v.arrayMeta()
	in := codecdriver.Spec{
		Kind: codecdriver.Array, DType: t, Fill: fill, Shape: meta.StoredShape(chunks),
		MaxBytes: meta.ChunkBytes(chunks, v.group.ds.opts.Limits.MaxChunk),
	}
	p, err := codec.Open(ctx, stepsOf(v.meta.Codecs), in, v.group.ds.opts.Registry.Filter)
	if err == nil && v.isVariableLength() {
		if err := checkObject(v.group.ds.Codecs(), v.Path(), v.meta, true); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, err
}

func stepsOf(codecs []zarr.CodecSpec) []codecdriver.Step {
	steps := make([]codecdriver.Step, len(codecs))
	for i, c := range codecs {
		steps[i] = codecdriver.Step{ID: c.ID, Params: c.Params}
	}
	return steps
}

// wrapping decodes shards that are encoded as a whole. It opens the codecs on first use.
type wrapping struct {
	ds    *Dataset
	steps []codecdriver.Step
	mu    sync.Mutex
	pipe  *codec.Pipeline
}

func (w *wrapping) open(ctx context.Context) (*codec.Pipeline, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pipe == nil {
		in := codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: w.ds.opts.Limits.MaxChunk}
		pipe, err := codec.Open(ctx, w.steps, in, w.ds.opts.Registry.Filter)
		if err != nil {
			return nil, err
		}
		w.pipe = pipe
	}
	return w.pipe, nil
}

// decode decodes a shard. The caller owns the result.
func (w *wrapping) decode(ctx context.Context, data []byte) (out []byte, err error) {
	pipe, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	failed := pipe.DecodeMany(ctx, []codecdriver.Job{{Src: data}}, func(_ int, got []byte, e error) { out, err = bytes.Clone(got), e })
	return out, cmp.Or(failed, err)
}

func (e *engine) close() {
	for _, w := range e.wraps {
		if w.pipe != nil {
			_ = w.pipe.Close() // no operation is in progress that could fail
		}
	}
	if a := e.array.Load(); a != nil {
		a.Close()
	}
}

// chunkBytes returns the size of the largest decoded chunk, which was checked against the
// limit when the variable was opened. For elements of variable length it returns the limit.
func (v *Var) chunkBytes() int64 {
	return v.arrayMeta().ChunkBytes(v.meta.Chunks, v.group.ds.opts.Limits.MaxChunk)
}

// Available returns nil if the variable's codecs can be opened, and otherwise the error
// that a read would return. It reads no data.
func (v *Var) Available(ctx context.Context) error {
	_, err := v.open(ctx)
	return err
}

// readRaw reads sel into values, in the stored element type and native byte order. If
// found is not nil, readRaw sets *found to report which chunks exist, in C order.
func (v *Var) readRaw(ctx context.Context, sel chunk.Selection, values array.Slab, found *[]bool) error {
	a, err := v.open(ctx)
	if err != nil {
		return err
	}
	shape, own := v.Shape(), v.ownShape() // get the shapes before the data, because a write that extends the array removes leftovers
	if err := sel.Check(shape); err != nil {
		return ncerr.Wrap("read", v.Path(), err)
	}
	absent, err := a.Read(ctx, sel, shape, own, values, found)
	if err == nil && absent {
		err = v.checkAfterAbsent(ctx)
	}
	return ncerr.Wrap("read", v.Path(), err)
}

// writeRaw calls f to write the elements of from to sel. The elements must have the
// stored type and byte order. shape is the variable's shape after growth.
func (v *Var) writeRaw(ctx context.Context, sel chunk.Selection, shape []int64, from array.Slab, f writeFunc) error {
	a, err := v.beginWrite(ctx)
	if err == nil {
		wait := v.putEarly(ctx)
		err = f(ctx, a, sel, shape, from)
		wait()
	}
	return ncerr.Wrap("write", v.Path(), err)
}

// beginWrite prepares the dataset for a write of v's chunks and returns the array.
func (v *Var) beginWrite(ctx context.Context) (*array.Array, error) {
	a, err := v.open(ctx)
	if err == nil {
		err = v.group.ds.addVarToClaim(ctx, v)
	}
	if err == nil {
		err = v.claimNode(ctx)
	}
	if err == nil {
		v.group.ds.chunksWritten.Store(true)
	}
	return a, err
}

// extendToReached raises the lengths in shape to the largest that writes of this
// process may have reached.
func (v *Var) extendToReached(shape []int64) {
	for i, d := range v.dims {
		shape[i] = max(shape[i], d.reach.Load())
	}
}

// isPrivate reports whether no other process can have extended v: its documents have
// not been put, or no other process can change them.
func (v *Var) isPrivate() bool {
	ds := v.group.ds
	return v.defined && !v.fresh.put.Load() || ds.swap != nil || ds.m.Capabilities().Durable == driver.OnFlush
}

// warnSingleWriter warns once that changes of partial chunks are not protected from
// other processes.
func (d *Dataset) warnSingleWriter() {
	if !d.opts.SingleWriter && d.warned.CompareAndSwap(false, true) {
		d.log.Warn("partial chunks are read, changed and written back, and the store cannot detect other writers: set SingleWriter if no other process writes", "store", d.loc.Driver)
	}
}

// fillSlab returns a slab of n fill values.
func (v *Var) fillSlab(n int64) array.Slab {
	if v.isVariableLength() {
		return array.Slab{Text: slices.Repeat([]string{string(v.meta.Fill)}, int(n))}
	}
	raw := make([]byte, n*int64(v.meta.DType.Size))
	chunk.Repeat(raw, v.meta.Fill)
	return array.Slab{Raw: raw}
}
