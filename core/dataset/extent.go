package dataset

import (
	"context"
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// An array's stored shape may lag behind its unlimited dimensions. Elements beyond the
// stored shape read as the fill value, whatever the chunks contain there: chunks at the
// edge extend beyond the shape, and others may be left from a time when the array was
// longer.

// setOwnShape sets v.own if the stored shape of v differs from the lengths of its
// dimensions. It must be called after all lengths are known.
func (v *Var) setOwnShape() {
	if len(v.dims) == len(v.meta.Shape) && !slices.Equal(v.shape(), v.meta.Shape) {
		v.own = slices.Clone(v.meta.Shape)
	}
}

// ownShape returns the shape of the array if it is smaller than v's dimensions, and nil
// otherwise. The slice is never modified.
func (v *Var) ownShape() []int64 {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return v.own
}

// extent returns the shape of the array. The caller holds Dataset.mu.
func (v *Var) extent() []int64 {
	if v.own != nil {
		return v.own
	}
	return v.shape()
}

// lengthen extends the array to the lengths of its dimensions. All elements beyond its
// old shape must read as the fill value.
func (v *Var) lengthen() {
	ds := v.group.ds
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if v.own != nil {
		v.own = nil
		v.changes.add()
	}
}

// clearBeyond clears the elements of chunks beyond the array's shape before the first
// write, which extends the array to the lengths of its dimensions. It keeps elements that other
// writers may have written.
func (v *Var) clearBeyond(ctx context.Context) error {
	if v.ownShape() == nil {
		return nil
	}
	g := &v.group.ds.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.ownShape() == nil {
		return nil
	}
	if err := v.prepareGrowth(ctx, v.Shape()); err != nil {
		return err
	}
	if err := v.clearUnacknowledged(ctx); err != nil {
		return err
	}
	v.lengthen()
	return nil
}

// Limits returns the limits of the dataset, with the defaults filled in.
func (d *Dataset) Limits() Limits { return d.opts.Limits }

// CheckSize fails with ncerr.ErrLimit if the variable has more chunks than
// Limits.MaxChunks or more bytes than Limits.MaxData. Call it before reading all
// values: absent chunks read as the fill value, so a small document can declare a huge
// variable.
func (v *Var) CheckSize() error {
	limits := v.group.ds.opts.Limits
	chunks, bytes := int64(1), v.elemBytes()
	full, grid := false, v.meta.ChunkGrid()
	times := func(n *int64, k int64) {
		if full = full || k > 0 && *n > math.MaxInt64/k; !full {
			*n *= k
		}
	}
	for i, n := range v.Shape() {
		if n == 0 {
			return nil
		}
		times(&bytes, n)
		times(&chunks, grid.Len(i, n))
	}
	switch {
	case full || bytes > limits.MaxData:
		return ncerr.Errorf(ncerr.ErrLimit, "traverse", v.Path(), "the variable of shape %v has more than %d bytes, the limit set by limits.max_data (Limits.MaxData)", v.Shape(), limits.MaxData)
	case chunks > limits.MaxChunks:
		return ncerr.Errorf(ncerr.ErrLimit, "traverse", v.Path(), "the variable of shape %v has %d chunks, but the limit set by limits.max_chunks (Limits.MaxChunks) is %d", v.Shape(), chunks, limits.MaxChunks)
	}
	return nil
}
