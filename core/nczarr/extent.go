package nczarr

import (
	"context"
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// An array may be shorter than an unlimited dimension that it has: nobody has
// written it since the dimension grew. What it lacks is fill. Its chunks say
// nothing there, though they may reach there, or be left over from an array
// that was longer.

// setOwn finds out whether v is such an array, when the lengths of all
// dimensions are known.
func (v *Var) setOwn() {
	if len(v.dims) == len(v.meta.Shape) && !slices.Equal(v.shape(), v.meta.Shape) {
		v.own = slices.Clone(v.meta.Shape)
	}
}

// ownShape gives the shape of the array where it is shorter than dimensions of
// v, else nil. It is not changed, but replaced.
func (v *Var) ownShape() []int64 {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return v.own
}

// extent is the shape of the array; the lock is held.
func (v *Var) extent() []int64 {
	if v.own != nil {
		return v.own
	}
	return v.shape()
}

// lengthen makes the array as long as its dimensions are: beyond it is nothing
// but fill.
func (v *Var) lengthen() {
	ds := v.group.ds
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if v.own != nil {
		v.own = nil
		v.changes.add()
	}
}

// settle removes what chunks have beyond the array before the first write to
// it, which makes it as long as its dimensions.
func (v *Var) settle(ctx context.Context) error {
	if v.ownShape() == nil {
		return nil
	}
	g := &v.group.ds.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.ownShape() == nil {
		return nil
	}
	if err := v.group.ds.markGrowth(ctx); err != nil { // it may be another writer's doing
		return err
	}
	return v.dropLeftovers(ctx)
}

// CheckSize refuses a variable of more chunks than Limits.MaxChunks or more
// bytes than Limits.MaxData with ncerr.ErrLimit. Call it before reading all
// values: absent chunks read as fill, so a small document can declare a huge
// variable.
func (v *Var) CheckSize() error {
	limits := v.group.ds.opts.Limits
	chunks, bytes := int64(1), v.elemBytes()
	full := false
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
		times(&chunks, (n-1)/v.meta.Chunks[i]+1)
	}
	switch {
	case full || bytes > limits.MaxData:
		return ncerr.Errorf(ncerr.ErrLimit, "go through", v.Path(), "its shape %v makes more than %d bytes, the limit of limits.max_data (Limits.MaxData)", v.Shape(), limits.MaxData)
	case chunks > limits.MaxChunks:
		return ncerr.Errorf(ncerr.ErrLimit, "go through", v.Path(), "its shape %v makes %d chunks, the limit of limits.max_chunks (Limits.MaxChunks) is %d", v.Shape(), chunks, limits.MaxChunks)
	}
	return nil
}
