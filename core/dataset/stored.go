package dataset

import (
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// Stored describes how much of a variable is stored.
type Stored struct {
	Chunks int64 // chunks in the store
	Grid   int64 // chunks of the whole shape, including absent ones
	Bytes  int64 // encoded size of the chunks in the store
	Raw    int64 // decoded size of all elements; 0 if they have variable length
}

// Stored lists the chunks of the variable and adds up their sizes. In a bucket this
// takes one request per 1,000 chunks. Fields of one structured array share its chunks.
// Stored fails with ncerr.ErrUnsupported if the store cannot be listed, and with
// ncerr.ErrMetadata if all chunks have keys with another dimension_separator.
func (v *Var) Stored(ctx context.Context) (Stored, error) {
	s, grid := Stored{Grid: 1}, v.grid()
	for _, n := range grid {
		s.Grid *= n
	}
	if t, _ := v.stored(); !v.isVariableLength() {
		s.Raw = chunk.Product(v.storedBounds()) * int64(t.Size)
	}
	if a := v.data.array.Load(); a != nil {
		if err := a.StoreBuffered(ctx); err != nil {
			return s, ncerr.Wrap("write", v.Path(), err)
		}
	}
	for ch, err := range v.source().Chunks(ctx, grid) {
		if err != nil {
			return s, ncerr.Wrap("list", v.Path(), err)
		}
		if !manifest.Within(ch.Index, grid) {
			continue
		}
		if ch.Size < 0 {
			if ch.Size, err = v.storedSize(ctx, ch.Index); err != nil {
				return s, ncerr.Wrap("examine", v.Path(), err)
			}
		}
		s.Chunks++
		s.Bytes += ch.Size
	}
	return s, nil
}

// storedSize returns the size of the object that contains one chunk.
func (v *Var) storedSize(ctx context.Context, index []int64) (int64, error) {
	at := make([]manifest.Location, 1)
	if err := v.source().Locate(ctx, [][]int64{index}, at); err != nil {
		return 0, err
	}
	info, err := at[0].Map.Stat(ctx, at[0].Key)
	return info.Size, err
}

// grid returns the number of chunks along each dimension.
func (v *Var) grid() []int64 { return v.gridOf(v.storedBounds()) }

// gridOf returns the number of chunks along each dimension of an array of the given
// shape.
func (v *Var) gridOf(shape []int64) []int64 {
	grid, chunks := slices.Clone(shape), v.meta.ChunkGrid()
	for d, n := range grid {
		grid[d] = chunks.Len(d, n)
	}
	return grid
}

// storedBounds returns the current shape of the stored array. For a scalar, it may be
// [1] instead of empty.
func (v *Var) storedBounds() []int64 {
	if v.meta.Scalar {
		return v.meta.Shape
	}
	return v.Shape()
}

// HasConsolidated reports whether consolidated metadata exists, even if it is not used:
// see [Dataset.Consolidated].
func (d *Dataset) HasConsolidated(ctx context.Context) (bool, error) {
	if d.consolidated || d.inline || d.layout.Inline() {
		return d.consolidated || d.inline, nil
	}
	return d.m.Exists(ctx, zarr.ConsolidatedDoc)
}
