package chunk

// Units groups the projections of a Plan by unit. A unit is a box of chunks, such as a
// shard.
type Units struct {
	plan  *Plan
	units *Plan // plan of the same selection over units
}

// Units groups the projections of p by unit. grid divides the array into units; its
// lengths are in chunks. All chunks must have the same shape. The errors are the same as
// for NewPlan.
func (p *Plan) Units(grid Grid) (*Units, error) {
	var sel Selection
	size := make([]int64, len(p.dims))
	for d := range p.dims {
		dim := &p.dims[d]
		sel.Start, sel.Count, sel.Stride = append(sel.Start, dim.start), append(sel.Count, dim.count), append(sel.Stride, dim.step)
		size[d] = dim.size
	}
	units, err := NewPlan(sel, grid.Times(size))
	return &Units{p, units}, err
}

// Len returns the number of units that the selection overlaps.
func (u *Units) Len() int64 { return u.units.Len() }

// Covers is like [Plan.Covers] for unit i.
func (u *Units) Covers(i int64, shape []int64) bool {
	proj := make(Projection, len(u.plan.dims))
	u.units.At(i, proj)
	return u.units.Covers(proj, shape)
}

// Append appends to dst the numbers of the projections in unit i, in C order of the
// grid, with 0 <= i < Len.
func (u *Units) Append(dst []int64, i int64) []int64 {
	rank := len(u.plan.dims)
	proj := make(Projection, rank)
	u.units.At(i, proj)
	first, n, at := make([]int64, rank), make([]int64, rank), make([]int64, rank)
	total := int64(1)
	for d, s := range proj {
		dim := &u.plan.dims[d]
		first[d] = dim.number(s.Out)
		n[d] = dim.number(s.Out+s.N-1) - first[d] + 1
		total *= n[d]
	}
	for range total {
		k := int64(0)
		for d := range at {
			k = k*u.plan.dims[d].n + first[d] + at[d]
		}
		dst = append(dst, k)
		for d := rank - 1; d >= 0; d-- {
			if at[d]++; at[d] < n[d] {
				break
			}
			at[d] = 0
		}
	}
	return dst
}

// number returns the number, among the overlapping chunks, of the chunk that contains
// position k of the selection.
func (d *planDim) number(k int64) int64 {
	if d.step > d.size {
		return k
	}
	return (d.start+k*d.step)/d.size - d.first
}
