package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// movable reports whether the stored chunks of p.src are chunks of p.dst with the same
// values, so that they can be copied without encoding them. Otherwise the values are
// copied.
func (p *pair) movable(ctx context.Context) (bool, error) {
	a, b := p.src, p.dst
	switch {
	case p.recode, p.quantize.Mode != dtype.QuantizeNone:
	case a.Rank() == 0, a.in != nil, b.in != nil: // a scalar has its own form in each layout
	case a.converts() && !a.isVariableLength(), a.meta.DType != b.meta.DType:
	case !a.meta.ChunkGrid().Equal(b.meta.ChunkGrid()), !slices.Equal(a.meta.Transpose, b.meta.Transpose):
	case !slices.Equal(a.Shape(), b.Shape()), a.ownShape() != nil, b.ownShape() != nil:
	case !b.defined: // b may already have chunks
	case !a.sameFill(b), b.AbsentMisreadByNetCDF():
	default:
		return sameCodecs(ctx, a, b)
	}
	return false, nil
}

// converts reports whether a read of v into a slice of v's own Go type converts or checks
// the values.
func (v *Var) converts() bool {
	_, t, ok := dtype.View(v.NewSlice(0))
	return !ok || t.WithOrder(v.meta.DType.Order) != v.asNumber()
}

// sameCodecs reports whether a and b have the same codecs with equal parameters.
func sameCodecs(ctx context.Context, a, b *Var) (bool, error) {
	opened, err := a.open(ctx)
	if err != nil {
		return false, err
	}
	if _, err := b.open(ctx); err != nil || len(a.meta.Codecs) != len(b.meta.Codecs) {
		return false, err
	}
	codecs, specs := b.group.ds.Codecs(), opened.Specs()
	for i, c := range a.meta.Codecs {
		if !sameCodec(codecs, c, b.meta.Codecs[i], specs[i].DType.Size) {
			return false, nil
		}
	}
	return true, nil
}

// sameCodec reports whether x and y are the same codec with equal parameters. size is the
// size of their input elements in bytes.
func sameCodec(codecs codec.Catalog, x, y zarr.CodecSpec, size int) bool {
	d, known := codecs.Find(x.ID)
	if x.ID != y.ID && !(known && d.Has(y.ID)) {
		return false
	}
	a, okA := boundParams(&d, x.Params, size)
	b, okB := boundParams(&d, y.Params, size)
	return okA && okB && reflect.DeepEqual(a, b)
}

// boundParams decodes parameters, adds the default values of absent ones, and replaces
// an element size of 0 with size. It returns false for invalid parameters.
func boundParams(d *codecdriver.Description, text json.RawMessage, size int) (map[string]any, bool) {
	decode := func(text []byte, to any) bool {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		return dec.Decode(to) == nil
	}
	params := make(map[string]any)
	if len(text) > 0 && !decode(text, &params) {
		return nil, false
	}
	delete(params, "id")
	for _, p := range d.Params {
		value := params[p.Name]
		switch {
		case value != nil || p.Default == "":
		case p.Type == codecdriver.TextParam || p.Type == codecdriver.DTypeParam:
			value = p.Default
		case !decode([]byte(p.Default), &value):
			return nil, false
		}
		if p.Input == codecdriver.InputSize && value == json.Number("0") {
			value = json.Number(strconv.Itoa(size))
		}
		if value != nil {
			params[p.Name] = value
		} else {
			delete(params, p.Name)
		}
	}
	return params, true
}

// split divides an array of the given shape into the box of the chunks or shards that end
// within the unlimited dimensions, and boxes with all other chunks. The other chunks may contain
// data beyond the shape, which must not reappear when a dimension of the copy grows.
func (v *Var) split(shape []int64) (whole chunk.Selection, edges []chunk.Selection) {
	whole = chunk.All(shape)
	for d, dim := range v.dims {
		_, last, _ := v.ObjectGrid().Find(d, shape[d]) // a shard is written once
		rest := shape[d] - last
		if !dim.unlimited || rest == 0 {
			continue
		}
		edge := chunk.Selection{Start: slices.Clone(whole.Start), Count: slices.Clone(whole.Count)}
		edge.Start[d], edge.Count[d] = shape[d]-rest, rest
		if whole.Count[d] -= rest; edge.Len() > 0 {
			edges = append(edges, edge)
		}
	}
	return whole, edges
}

// move copies the stored chunks of box, which begins and ends at chunk boundaries or at
// the edge of the array.
func (c *copier) move(ctx context.Context, p *pair, box chunk.Selection) error {
	from, err := p.src.open(ctx)
	if err != nil {
		return err
	}
	to, err := p.dst.open(ctx)
	if err != nil {
		return err
	}
	plan, err := chunk.NewPlan(box, p.src.meta.ChunkGrid())
	if err != nil {
		return ncerr.Wrap("copy", p.src.Path(), err)
	}
	n, workers, room := array.EncodedBatches(from, to, c.held.own)
	if n == 0 {
		return c.recode(ctx, p, box)
	}
	batches, list := (plan.Len()+n-1)/n, func(m *chunkMover, k int64) []int64 {
		m.numbers = m.numbers[:0]
		for i := k * n; i < min(k*n+n, plan.Len()); i++ {
			m.numbers = append(m.numbers, i)
		}
		return m.numbers
	}
	unit, sharded := p.dst.shardUnits()
	if !sharded {
		unit = manifest.Whole(p.src.source()) // a batch with chunks of several shards would hold all of these
	}
	if unit.Rank() > 0 {
		units, err := plan.Units(unit)
		if err != nil {
			return ncerr.Wrap("copy", p.src.Path(), err)
		}
		batches, list = units.Len(), func(m *chunkMover, k int64) []int64 {
			m.numbers = units.Append(m.numbers[:0], k)
			return m.numbers
		}
	}
	return parallel(ctx, workers, batches, func() func(context.Context, int64) error {
		m := &chunkMover{c: c, pair: p, plan: plan, room: room, chunks: make([]array.Encoded, n)}
		for i := range m.chunks {
			m.chunks[i].Index = make([]int64, plan.Rank())
		}
		return func(ctx context.Context, k int64) error { return m.batch(ctx, list(m, k)) }
	})
}

// shardUnits returns the grid of the shards of v, with lengths in chunks. ok is false if v has
// no shards.
func (v *Var) shardUnits() (unit chunk.Grid, ok bool) {
	w, err := manifest.AsWriter(v.source())
	if err != nil {
		return chunk.Grid{}, false
	}
	unit = w.Units()
	return unit, unit.Rank() > 0
}

// chunkMover copies one batch of chunks at a time and reuses its memory.
type chunkMover struct {
	c *copier
	*pair
	plan    *chunk.Plan
	room    int64 // see array.ReadEncoded
	chunks  []array.Encoded
	numbers []int64
}

// batch copies the chunks of the plan with the given numbers.
func (m *chunkMover) batch(ctx context.Context, numbers []int64) error {
	chunks, proj, size := m.chunks[:len(numbers)], make(chunk.Projection, m.plan.Rank()), int64(0)
	for i, number := range numbers {
		m.plan.At(number, proj)
		n := m.src.elemBytes()
		for d, s := range proj {
			chunks[i].Index[d] = s.Index
			n *= s.N
		}
		size += n
	}
	if err := m.src.readEncoded(ctx, chunks, !m.c.opts.NoVerify, m.room); err != nil {
		return err
	}
	var values []int // chunks that are copied as values, after the others: in shards each of them changes a part
	for i := range chunks {
		if ch := &chunks[i]; ch.Deferred || ch.Data != nil && ch.FilterMask != 0 || ch.Data == nil && m.undefined() {
			ch.Data, ch.Deferred = nil, true
			values = append(values, i)
		}
	}
	if err := m.dst.writeEncoded(ctx, chunks); err != nil {
		return err
	}
	for _, i := range values {
		sel := m.src.chunkAt(chunks[i].Index)
		if err := m.c.block(ctx, m.pair, sel, m.src.NewSlice(sel.Len())); err != nil {
			return err
		}
	}
	m.c.progress(size)
	return nil
}

// chunkAt returns a selection of the elements in the chunk at a position in the grid.
func (v *Var) chunkAt(index []int64) chunk.Selection {
	sel := chunk.All(v.Shape())
	for d, n := range index {
		start, length := v.meta.ChunkGrid().Chunk(d, n)
		sel.Start[d], sel.Count[d] = start, min(length, sel.Count[d]-start)
	}
	return sel
}

// readEncoded reads stored chunks; see [array.Array.ReadEncoded].
func (v *Var) readEncoded(ctx context.Context, chunks []array.Encoded, verify bool, room int64) error {
	a, err := v.open(ctx)
	if err != nil {
		return err
	}
	absent, err := a.ReadEncoded(ctx, chunks, verify, room)
	if err == nil && absent {
		err = v.checkAfterAbsent(ctx)
	}
	return ncerr.Wrap("read", v.Path(), err)
}

// writeEncoded stores chunks as they are; see [array.Array.WriteEncoded].
func (v *Var) writeEncoded(ctx context.Context, chunks []array.Encoded) error {
	if err := v.checkWritable(); err != nil {
		return err
	}
	a, err := v.beginWrite(ctx)
	if err == nil {
		wait := v.putEarly(ctx)
		err = a.WriteEncoded(ctx, chunks)
		wait()
	}
	return ncerr.Wrap("write", v.Path(), err)
}
