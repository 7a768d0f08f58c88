package chunk

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// A Span is the intersection of a selection and one chunk along one dimension.
type Span struct {
	Index int64 // position of the chunk in the grid
	First int64 // first selected index inside the chunk
	N     int64 // number of selected indices, which are one stride apart
	Out   int64 // position of First in the selection
	Size  int64 // length of the chunk
}

// A Projection is the intersection of a selection and one chunk, with one Span per
// dimension.
type Projection []Span

// A Plan divides a selection into projections, one per chunk. It computes a projection
// from its number, so that workers can share one Plan. A Plan is read-only after
// NewPlan.
type Plan struct {
	dims   []planDim
	total  int64
	varies bool // the chunks differ in shape
}

type planDim struct {
	start, count, step, size int64     // selection and chunk length
	first                    int64     // first overlapping chunk
	n                        int64     // number of overlapping chunks
	runs                     []planRun // if the chunks differ in length: the runs that the selection overlaps
}

// planRun is the plan of a run of chunks that have the same length.
type planRun struct {
	planDim       // relative to the run
	index   int64 // position of the first chunk of the run in the grid
	out     int64 // position in the selection of the first index in the run
	before  int64 // number of overlapping chunks in the preceding runs
}

// NewPlan returns the plan of sel over the chunks of grid. sel must have been checked
// against the array's shape. The error is ErrBadChunk for a chunk length below 1 or a
// different rank, and ErrLimit for more than 2^63-1 chunks.
func NewPlan(sel Selection, grid Grid) (*Plan, error) {
	if grid.Rank() != len(sel.Count) {
		return nil, ncerr.Errorf(ncerr.ErrBadChunk, "select", "", "the chunk shape has %d dimensions, but the selection has %d", grid.Rank(), len(sel.Count))
	}
	p := &Plan{dims: make([]planDim, grid.Rank()), total: 1}
	for d, size := range grid.chunks {
		if size < 1 {
			return nil, ncerr.Errorf(ncerr.ErrBadChunk, "select", "", "dimension %d: invalid chunk length %d", d, size)
		}
		dim := planDim{start: sel.Start[d], count: sel.Count[d], step: sel.step(d), size: size}
		if dim.count == 0 {
			p.total = 0
		} else {
			if runs := grid.varies(d); runs != nil {
				dim.planRuns(runs)
				p.varies = true
			} else {
				dim.plan()
			}
			if p.total > math.MaxInt64/dim.n {
				return nil, ncerr.Errorf(ncerr.ErrLimit, "select", "", "the selection overlaps too many chunks")
			}
			p.total *= dim.n
		}
		p.dims[d] = dim
	}
	return p, nil
}

// plan sets first and n for chunks of one length.
func (d *planDim) plan() {
	d.first = d.start / d.size
	// If the step is at most the chunk length, the selection overlaps every chunk
	// between the first and the last. Otherwise each index is in a separate chunk.
	if d.n = d.count; d.step <= d.size {
		d.n = (d.start+(d.count-1)*d.step)/d.size - d.first + 1
	}
}

// planRuns sets runs and n for chunks of different lengths.
func (d *planDim) planRuns(runs []run) {
	for i := search(runs, d.start, func(r *run) int64 { return r.start }); i < len(runs); i++ {
		r := &runs[i]
		var from int64 // selected indices before the run
		if r.start > d.start {
			from = (r.start-d.start-1)/d.step + 1
		}
		to := d.count // selected indices up to the end of the run
		if i+1 < len(runs) {
			to = min(to, (runs[i+1].start-d.start-1)/d.step+1)
		}
		if from >= d.count {
			return
		}
		if from >= to {
			continue
		}
		in := planDim{start: d.start + from*d.step - r.start, count: to - from, step: d.step, size: r.Len}
		in.plan()
		d.runs = append(d.runs, planRun{planDim: in, index: r.first, out: from, before: d.n})
		d.n += in.n
	}
}

// Len returns the number of overlapping chunks: 0 for an empty selection, and 1 for rank
// 0.
func (p *Plan) Len() int64 { return p.total }

// Rank returns the number of dimensions.
func (p *Plan) Rank() int { return len(p.dims) }

// At sets out, which must have Rank entries, to projection i, with 0 <= i < Len, in C
// order of the grid.
func (p *Plan) At(i int64, out Projection) {
	for d := len(p.dims) - 1; d >= 0; d-- {
		dim := &p.dims[d]
		out[d] = dim.span(i % dim.n)
		i /= dim.n
	}
}

// Number returns the number of the projection of the chunk at a position in the grid. ok
// is false if the selection does not overlap that chunk.
func (p *Plan) Number(index []int64) (i int64, ok bool) {
	if p.total == 0 {
		return 0, false
	}
	for d := range p.dims {
		dim := &p.dims[d]
		k, above := int64(0), dim.n
		for k < above { // the first span at or after the index
			if mid := k + (above-k)/2; dim.span(mid).Index < index[d] {
				k = mid + 1
			} else {
				above = mid
			}
		}
		if k == dim.n || dim.span(k).Index != index[d] {
			return 0, false
		}
		i = i*dim.n + k
	}
	return i, true
}

func (d *planDim) span(k int64) Span {
	if d.runs != nil {
		r := &d.runs[search(d.runs, k, func(r *planRun) int64 { return r.before })]
		s := r.span(k - r.before)
		s.Index += r.index
		s.Out += r.out
		return s
	}
	if d.step > d.size {
		at := d.start + k*d.step
		return Span{Index: at / d.size, First: at % d.size, N: 1, Out: k, Size: d.size}
	}
	c := d.first + k
	lo := c * d.size
	var j0 int64
	if lo > d.start {
		j0 = (lo-d.start-1)/d.step + 1
	}
	// Use unsigned integers, because the chunk may extend beyond the largest int64.
	beyond := uint64(lo) + uint64(d.size) - 1 - uint64(d.start) // neither the operands nor the result is negative
	j1 := int64(min(uint64(d.count)-1, beyond/uint64(d.step)))  // j1 is at most count-1
	return Span{Index: c, First: d.start + j0*d.step - lo, N: j1 - j0 + 1, Out: j0, Size: d.size}
}

// Covers reports whether the projection includes every element of its chunk that lies
// inside shape, so that a write need not preserve any part of the chunk.
func (p *Plan) Covers(proj Projection, shape []int64) bool {
	for d, s := range proj {
		if !p.dims[d].covers(s, shape[d]) {
			return false
		}
	}
	return true
}

// covers reports whether s includes every index of its chunk below length.
func (d *planDim) covers(s Span, length int64) bool {
	// If First is 0, the chunk starts at the selected index Out.
	return s.First == 0 && s.N == min(s.Size, length-d.start-s.Out*d.step) && (d.step == 1 || s.N == 1)
}

// Parts calls f with the number of each projection that does not cover its chunk (see
// Covers), in C order, until f returns false. It skips most of the covered chunks without
// examining them.
func (p *Plan) Parts(shape []int64, f func(i int64) bool) {
	if p.total > 0 {
		p.parts(0, 0, false, shape, f)
	}
}

func (p *Plan) parts(d int, i int64, part bool, shape []int64, f func(i int64) bool) bool {
	if d == len(p.dims) {
		return !part || f(i)
	}
	dim := &p.dims[d]
	for k := int64(0); k < dim.n; k++ {
		partly := part || !dim.covers(dim.span(k), shape[d])
		if !partly && d == len(p.dims)-1 {
			if k > 0 && dim.step == 1 && dim.runs == nil { // all later chunks except the last are covered too
				k = max(k, dim.n-2)
			}
			continue
		}
		if !p.parts(d+1, i*dim.n+k, partly, shape, f) {
			return false
		}
	}
	return true
}

// Whole reports whether the projection includes every element of its chunk, including
// the part of an edge chunk that lies outside the array.
func (p *Plan) Whole(proj Projection) bool {
	for d, s := range proj {
		if s.N != s.Size || p.dims[d].step != 1 && s.N > 1 {
			return false
		}
	}
	return true
}

// Bytes returns the size of a chunk in bytes. It fails with ErrLimit if the size exceeds
// limit, which must be positive, and with ErrBadChunk if a length is below 1.
func Bytes(chunks []int64, elem int, limit int64) (int64, error) {
	n := int64(elem)
	for _, c := range chunks {
		if c < 1 {
			return 0, ncerr.Errorf(ncerr.ErrBadChunk, "compute chunk size", "", "the chunk shape %v has a length below 1", chunks)
		}
		if n > limit/c {
			return 0, ncerr.Errorf(ncerr.ErrLimit, "compute chunk size", "", "a chunk of shape %v with elements of %d bytes is larger than the limit of %d bytes", chunks, elem, limit)
		}
		n *= c
	}
	return n, nil
}
