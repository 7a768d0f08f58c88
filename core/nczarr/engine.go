package nczarr

import (
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

// DefaultMergeGap is the default of Options.MergeGap, in bytes: what a fast
// connection brings in the time that one more of the requests under way costs.
const DefaultMergeGap = 64 << 10

// engine moves the data of a variable. Its array is opened at the first use.
type engine struct {
	mu     sync.Mutex // held while the array is opened
	array  atomic.Pointer[array.Array]
	once   sync.Once // for source
	source manifest.Source
	atRoot bool // the array is the root of the store
}

const (
	maxIndex   = 64 << 20 // bytes of the index of one shard: four million chunks
	maxIndexes = 16 << 20 // bytes of the indexes that an array keeps, if they are smaller
)

func indexOf(s zarr.Shard) manifest.ShardIndex {
	return manifest.ShardIndex{AtStart: s.AtStart, Checksum: s.Checksum, Big: s.Big}
}

// open opens the array unless it is open. After a failure the next use tries
// again: a plugin that was not there may have come.
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
	pipe, err := v.openPipeline(ctx, meta)
	if ncerr.KindOf(err) == ncerr.ErrInvalid && !v.defined { // by the store, not by the caller
		return nil, ncerr.New(ncerr.ErrMetadata, "open", join(v.Path(), v.meta.Layout.ArrayDoc()), err)
	}
	if err != nil {
		return nil, ncerr.Wrap("open", v.Path(), err)
	}
	ds := v.group.ds
	env := ds.env()
	env.Grid, env.Reach, env.Check = v.grid, v.reach, ds.stillOpened
	if !ds.m.Capabilities().IfMatch {
		env.Part = ds.warnSingleWriter
	}
	a := array.New(meta, v.source(), pipe, env)
	e.array.Store(a)
	return a, nil
}

func (v *Var) arrayMeta() *array.Meta {
	m := &array.Meta{DType: v.meta.DType, Fill: v.meta.Fill, Chunks: v.meta.Chunks, Transpose: v.meta.Transpose}
	if m.Stored, _ = v.stored(); v.in != nil {
		m.Offset = v.in.offset
	}
	return m
}

// env is what the arrays of the dataset have in common.
func (d *Dataset) env() *array.Env {
	o := &d.opts
	e := &array.Env{
		Workers: o.Workers, InFlight: o.Remote.InFlight, Remote: d.m.Capabilities().Latency == driver.Remote,
		Many: d.getMany, MaxChunk: o.Limits.MaxChunk, MergeGap: o.MergeGap,
	}
	if e.InFlight <= 0 {
		e.InFlight = 64
	}
	if e.MergeGap <= 0 {
		e.MergeGap = DefaultMergeGap
	}
	return e
}

// workers is the number of requests of about size bytes that are made at once.
func (d *Dataset) workers(size int64) int { return d.env().AtOnce(size) }

// source is where the chunks of the variable are.
func (v *Var) source() manifest.Source {
	e := &v.data
	e.once.Do(func() {
		ds := v.group.ds
		e.source = manifest.NewComputed(ds.m, v.key(), v.meta.Keys, len(v.meta.Chunks), ds.getMany)
		for i, s := range v.meta.Shards {
			e.source = manifest.NewShards(e.source, v.meta.ShardShape(i), indexOf(s), maxIndexes, ds.getMany)
		}
	})
	return e.source
}

func (v *Var) openPipeline(ctx context.Context, meta *array.Meta) (*codec.Pipeline, error) {
	steps := make([]codecdriver.Step, len(v.meta.Codecs))
	for i, c := range v.meta.Codecs {
		steps[i] = codecdriver.Step{ID: c.ID, Params: c.Params}
	}
	t, fill := v.stored()
	in := codecdriver.Spec{Kind: codecdriver.Array, DType: t, Fill: fill, Shape: meta.StoredShape(), MaxBytes: v.chunkBytes()}
	p, err := codec.Open(ctx, steps, in, v.group.ds.opts.Registry.Filter)
	if err == nil && v.varies() {
		if err := checkObject(v.group.ds.Codecs(), v.Path(), v.meta, true); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, err
}

func (e *engine) close() {
	if a := e.array.Load(); a != nil {
		a.Close()
	}
}

// chunkBytes is the size of a decoded chunk, which was checked against the
// limit when the variable was opened; where elements vary it is the limit.
func (v *Var) chunkBytes() int64 { return v.arrayMeta().ChunkBytes(v.group.ds.opts.Limits.MaxChunk) }

// Available reports whether the variable's data can be read: nil, or the
// error that a read would give because a codec is not there.
func (v *Var) Available(ctx context.Context) error {
	_, err := v.open(ctx)
	return err
}

// readRaw reads sel into values, in the stored element type and in native
// byte order. *found, when found is not nil, becomes which chunks there are, in
// C order.
func (v *Var) readRaw(ctx context.Context, sel chunk.Selection, values array.Slab, found *[]bool) error {
	a, err := v.open(ctx)
	if err != nil {
		return err
	}
	shape, own := v.Shape(), v.ownShape() // a write that makes it longer removes what this read may have seen
	if err := sel.Check(shape); err != nil {
		return ncerr.Wrap("read", v.Path(), err)
	}
	absent, err := a.Read(ctx, sel, shape, own, values, found)
	if err == nil && absent {
		err = v.wasAbsent(ctx)
	}
	return ncerr.Wrap("read", v.Path(), err)
}

// writeRaw writes from, elements of the stored type in stored byte order, to
// sel. shape is the variable's shape after growth; only, when not nil, says
// which chunks are written, in C order.
func (v *Var) writeRaw(ctx context.Context, sel chunk.Selection, shape []int64, from array.Slab, only []bool) error {
	a, err := v.open(ctx)
	if err != nil {
		return err
	}
	if err := v.group.ds.noteVar(ctx, v); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	if err := v.takePlace(ctx); err != nil {
		return ncerr.Wrap("write", v.Path(), err)
	}
	v.group.ds.wrote.Store(true)
	return ncerr.Wrap("write", v.Path(), a.Write(ctx, sel, shape, from, only))
}

// reach raises the lengths in shape to those that writes of this process may have
// reached.
func (v *Var) reach(shape []int64) {
	for i, d := range v.dims {
		shape[i] = max(shape[i], d.reach.Load())
	}
}

// warnSingleWriter says once that changes of partial chunks are not guarded
// against other processes.
func (d *Dataset) warnSingleWriter() {
	if !d.opts.SingleWriter && d.warned.CompareAndSwap(false, true) {
		d.log.Warn("partial chunks are read, changed and written back, and the store cannot detect another writer: state SingleWriter if there is none", "store", d.loc.Driver)
	}
}

// fillSlab gives n elements of fill.
func (v *Var) fillSlab(n int64) array.Slab {
	if v.varies() {
		return array.Slab{Text: slices.Repeat([]string{string(v.meta.Fill)}, int(n))}
	}
	raw := make([]byte, n*int64(v.meta.DType.Size))
	chunk.Repeat(raw, v.meta.Fill)
	return array.Slab{Raw: raw}
}
