package chunk

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Span is the cut of a selection by one chunk along one dimension.
type Span struct {
	Index int64 // position of the chunk in the grid
	First int64 // first wanted index inside the chunk
	N     int64 // number of wanted indices; they are a stride apart
	Out   int64 // position of the first in the selection
}

// Projection is the cut of a selection by one chunk: one Span a dimension.
type Projection []Span

// Plan cuts a selection into projections, which are found by number without
// walking, so that workers can share one Plan. It is read-only after NewPlan.
type Plan struct {
	dims  []planDim
	total int64
}

type planDim struct {
	start, count, step, size int64 // selection and chunk length
	first                    int64 // first chunk touched
	n                        int64 // chunks touched
}

// NewPlan makes the plan of sel over chunks of the given shape. sel must have
// been checked against the array's shape. ErrBadChunk for a chunk length
// below 1 or a rank that differs; ErrLimit when there are more than 2^63
// chunks.
func NewPlan(sel Selection, chunks []int64) (*Plan, error) {
	if len(chunks) != len(sel.Count) {
		return nil, ncerr.Errorf(ncerr.ErrBadChunk, "cut", "", "chunk shape has %d dimensions, selection %d", len(chunks), len(sel.Count))
	}
	p := &Plan{dims: make([]planDim, len(chunks)), total: 1}
	for d, size := range chunks {
		if size < 1 {
			return nil, ncerr.Errorf(ncerr.ErrBadChunk, "cut", "", "dimension %d: chunk length %d", d, size)
		}
		dim := planDim{start: sel.Start[d], count: sel.Count[d], step: sel.step(d), size: size}
		if dim.count == 0 {
			p.total = 0
		} else {
			dim.first = dim.start / size
			// With steps up to the chunk length every chunk between the first
			// and the last is touched; with longer steps each index has a
			// chunk of its own.
			if dim.n = dim.count; dim.step <= size {
				dim.n = sel.Last(d)/size - dim.first + 1
			}
			if p.total > math.MaxInt64/dim.n {
				return nil, ncerr.Errorf(ncerr.ErrLimit, "cut", "", "too many chunks")
			}
			p.total *= dim.n
		}
		p.dims[d] = dim
	}
	return p, nil
}

// Len is the number of chunks touched: 0 for an empty selection, 1 for rank 0.
func (p *Plan) Len() int64 { return p.total }

// Rank is the number of dimensions.
func (p *Plan) Rank() int { return len(p.dims) }

// At writes projection i, 0 <= i < Len, in C order of the grid, into out,
// which must have Rank entries.
func (p *Plan) At(i int64, out Projection) {
	for d := len(p.dims) - 1; d >= 0; d-- {
		dim := &p.dims[d]
		out[d] = dim.span(i % dim.n)
		i /= dim.n
	}
}

func (d *planDim) span(k int64) Span {
	if d.step > d.size {
		at := d.start + k*d.step
		return Span{Index: at / d.size, First: at % d.size, N: 1, Out: k}
	}
	c := d.first + k
	lo := c * d.size
	var j0 int64
	if lo > d.start {
		j0 = (lo-d.start-1)/d.step + 1
	}
	// Unsigned, since the chunk may reach beyond the last index that there is.
	beyond := uint64(lo) + uint64(d.size) - 1 - uint64(d.start) // none is negative, and the sum is not
	j1 := int64(min(uint64(d.count)-1, beyond/uint64(d.step)))  // at most count-1
	return Span{Index: c, First: d.start + j0*d.step - lo, N: j1 - j0 + 1, Out: j0}
}

// Covers reports whether the projection takes every element of its chunk that
// lies inside shape: nothing in the chunk has to be kept when it is written.
func (p *Plan) Covers(proj Projection, shape []int64) bool {
	for d, s := range proj {
		size := p.dims[d].size
		if s.First != 0 || s.N != min(size, shape[d]-s.Index*size) || p.dims[d].step != 1 && s.N > 1 {
			return false
		}
	}
	return true
}

// Whole reports whether the projection takes every element of its chunk, the
// part of an edge chunk that lies outside the array included.
func (p *Plan) Whole(proj Projection) bool {
	for d, s := range proj {
		if s.N != p.dims[d].size || p.dims[d].step != 1 && s.N > 1 {
			return false
		}
	}
	return true
}

// Bytes is the size of a chunk in bytes, or ErrLimit when that is more than
// limit (> 0).
func Bytes(chunks []int64, elem int, limit int64) (int64, error) {
	n := int64(elem)
	for _, c := range chunks {
		if c < 1 {
			return 0, ncerr.Errorf(ncerr.ErrBadChunk, "size chunk", "", "chunk shape %v", chunks)
		}
		if n > limit/c {
			return 0, ncerr.Errorf(ncerr.ErrLimit, "size chunk", "", "a chunk of shape %v and %d bytes an element is larger than the limit of %d bytes", chunks, elem, limit)
		}
		n *= c
	}
	return n, nil
}
