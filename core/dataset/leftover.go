package dataset

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Beyond describes the chunks of a variable beyond its shape. A writer that has not flushed
// yet or that died has written them.
type Beyond struct {
	Path   string // path of the variable
	Chunks int64  // number of chunks
	// First and Last are the smallest and the largest index of a chunk along each dimension, in
	// elements of the array.
	First, Last []int64
}

// Leftovers lists the chunks beyond the shapes of variables. It takes one listing for each
// variable that can grow; in pure Zarr, which does not record that, for every
// variable. It does not find elements beyond the shape in chunks that also contain
// elements within it. It returns nil if the store cannot be listed.
func (d *Dataset) Leftovers(ctx context.Context) ([]Beyond, error) {
	if !d.m.Capabilities().List {
		return nil, nil
	}
	var out []Beyond
	for _, v := range d.extensible(!d.layout.NCZarr()) {
		if v.in != nil || v.data.atRoot && v.meta.Scalar {
			continue
		}
		l, err := v.leftover(ctx)
		if err != nil {
			return nil, ncerr.Wrap("list", v.Path(), err)
		}
		if l.Chunks > 0 {
			out = append(out, l)
		}
	}
	return out, nil
}

func (v *Var) leftover(ctx context.Context) (Beyond, error) {
	l := Beyond{Path: v.Path()}
	v.group.ds.mu.RLock()
	shape := v.extent()
	v.group.ds.mu.RUnlock()
	if _, err := manifest.AsWriter(v.source()); err != nil {
		return l, nil // the chunks of v are never written
	}
	grid := v.meta.ChunkGrid()
	for ch, err := range v.source().Chunks(ctx, v.grid()) {
		if ncerr.KindOf(err) == ncerr.ErrMetadata {
			break // its chunks use the other separator, so this library did not write them
		}
		if err != nil {
			return l, err
		}
		if len(ch.Index) != len(shape) { // a scalar
			continue
		}
		beyond := false
		for i, n := range ch.Index {
			if n > maxDim/v.meta.Chunks[i] { // no array is that large
				beyond = false
				break
			}
			first, _ := grid.Chunk(i, n)
			beyond = beyond || first >= shape[i]
		}
		if !beyond {
			continue
		}
		if l.Chunks++; l.First == nil {
			l.First, l.Last = make([]int64, len(shape)), make([]int64, len(shape))
			for i, n := range ch.Index {
				l.First[i], _ = grid.Chunk(i, n)
			}
		}
		for i, n := range ch.Index {
			first, length := grid.Chunk(i, n)
			l.First[i], l.Last[i] = min(l.First[i], first), max(l.Last[i], first+length-1)
		}
	}
	return l, nil
}
