package dataset

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// sameFill reports whether absent chunks of v and of other read as the same values.
func (v *Var) sameFill(other *Var) bool {
	a, b := v.meta.DType, other.meta.DType
	if a.WithOrder(dtype.Little) != b.WithOrder(dtype.Little) {
		return false
	}
	return bytes.Equal(v.absent(), other.absent())
}

// undefined reports whether the copy does not define the values of absent chunks, although the
// source does. Most readers then return zeros, but zarr-python 2 returns the content of unused
// memory. The copy therefore stores these chunks.
func (p *pair) undefined() bool { return p.src.meta.HasFill && !p.dst.meta.HasFill }

// maxFilled is the maximum number of absent chunks that a copy stores in order to keep
// what xarray reads as missing, and maxFilledBytes the maximum size of their values.
const (
	maxFilled      = 10_000
	maxFilledBytes = 1 << 30
)

// isSparse reports whether the absent chunks of v exceed maxFilled or maxFilledBytes, or may
// exceed them because the chunks cannot be listed. It lists only the chunks of a variable that
// is large enough.
func (v *Var) isSparse(ctx context.Context) bool {
	tooMany := func(chunks int64) bool {
		return chunks > maxFilled || chunks > maxFilledBytes/max(1, chunk.Product(v.ChunkGrid().Largest())*v.elemBytes())
	}
	if !tooMany(chunk.Product(v.grid())) {
		return false
	}
	s, err := v.Stored(ctx)
	return err != nil || tooMany(s.Grid-s.Chunks)
}

// keepMask changes the fill value and the attributes of a copy of v in dst, so that readers
// treat the same elements as missing; see [zarr.Array.MaskIn]. The fill value of a sparse
// array stays, because its absent chunks would have to be stored.
func (v *Var) keepMask(ctx context.Context, dst *Dataset, spec *VarSpec) {
	meta, to := *v.meta, dst.layout
	meta.Attrs = spec.Attrs
	if to.NCZarr() { // the copy omits a _FillValue that does not fit
		meta.Attrs = slices.DeleteFunc(slices.Clone(spec.Attrs), func(a Attr) bool { return v.misfit(a) })
	}
	m := meta.MaskIn(to, v.in != nil)
	if m.NoFill && !spec.NoFill && v.isSparse(ctx) {
		m.NoFill = false
		dst.log.Warn("the fill value of a sparse array stays: in Zarr v2 xarray reads values that equal it as missing", "path", v.Path())
	}
	spec.NoFill = spec.NoFill || m.NoFill
	if from := meta.Layout; !from.NCZarr() && !to.NCZarr() && v.in == nil && meta.HasFill && (from.Format() == 2 || to.Format() == 3) {
		spec.absent = meta.Fill // from v3 to v2, the fill value becomes that of _FillValue, which is the mask
	}
	if m.Attr != nil {
		spec.Attrs = append(slices.Clone(spec.Attrs), *m.Attr)
	}
}

// AbsentMisreadByNetCDF reports whether netcdf-c reads absent chunks of v as the fill
// value with its bytes swapped.
func (v *Var) AbsentMisreadByNetCDF() bool {
	return v.group.ds.layout.AbsentMisreadByNetCDF(v.meta.DType)
}

// absent returns the value of an element of an absent chunk, in native byte order.
func (v *Var) absent() []byte {
	fill := make([]byte, max(v.meta.DType.Size, len(v.meta.Fill)))
	copy(fill, v.meta.Fill)
	if v.meta.DType.Order != dtype.Native {
		dtype.SwapBytes(fill, v.meta.DType.Width())
	}
	return fill
}

// overlappingChunks reports which chunks of the grid "to" overlap an existing chunk of
// the grid "from", inside the selection sel. found reports which chunks of "from"
// exist. found and the result have one entry per chunk that sel touches, in C order.
func overlappingChunks(sel chunk.Selection, from, to chunk.Grid, found []bool) ([]bool, error) {
	src, err := chunk.NewPlan(sel, from)
	if err != nil {
		return nil, err
	}
	rank := len(sel.Start)
	position := func(d int, i int64) int64 {
		n, _, _ := to.Find(d, i)
		return n
	}
	first, lens, total := make([]int64, rank), make([]int64, rank), int64(1)
	for d := range rank {
		first[d] = position(d, sel.Start[d])
		lens[d] = position(d, sel.Start[d]+sel.Count[d]-1) - first[d] + 1
		total *= lens[d]
	}
	out := make([]bool, total)
	proj := make(chunk.Projection, rank)
	lo, hi := make([]int64, rank), make([]int64, rank)
	for i, is := range found {
		if !is {
			continue
		}
		src.At(int64(i), proj)
		for d, s := range proj {
			at := sel.Start[d] + s.Out
			lo[d], hi[d] = position(d, at)-first[d], position(d, at+s.N-1)-first[d]
		}
		markBox(out, lens, lo, hi, 0, 0)
	}
	return out, nil
}

// markBox sets the entries of out in the box from lo to hi, inclusive. out is an array of
// shape lens in C order. d and at are the dimension and the offset of the recursion;
// callers pass 0.
func markBox(out []bool, lens, lo, hi []int64, d int, at int64) {
	if d == len(lens) {
		out[at] = true
		return
	}
	for k := lo[d]; k <= hi[d]; k++ {
		markBox(out, lens, lo, hi, d+1, at*lens[d]+k)
	}
}
