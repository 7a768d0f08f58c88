package chunk

import "slices"

// Slabs divides an array into selections in row-major order, each with a limited number
// of elements. It must not be used concurrently.
type Slabs struct {
	shape []int64
	edges []int64 // the chunk shape
	// Sel is the current selection, which Next modifies.
	Sel   Selection
	dim   int   // the dimension that is divided
	step  int64 // number of indices of that dimension in one slab
	begun bool
	empty bool
}

// NewSlabs divides shape into slabs of at most limit elements, but at least one element. It
// divides along chunk edges if possible. A shape without elements has no slabs.
func NewSlabs(shape, chunks []int64, limit int64) *Slabs {
	s := &Slabs{shape: shape, edges: chunks, dim: len(shape) - 1}
	s.Sel = Selection{Start: make([]int64, len(shape)), Count: make([]int64, len(shape))}
	if s.empty = slices.Contains(shape, 0); s.empty {
		return s
	}
	inner := int64(1) // elements of one index of dim
	for s.dim > 0 && shape[s.dim] <= limit/inner {
		inner *= shape[s.dim]
		s.dim--
	}
	if s.dim < 0 {
		return s
	}
	s.step = max(1, limit/inner)
	if c := chunkLen(chunks, s.dim); s.step > c {
		s.step -= s.step % c
	}
	s.step = min(s.step, shape[s.dim])
	for d := range shape {
		s.Sel.Count[d] = 1
		if d > s.dim {
			s.Sel.Count[d] = shape[d]
		}
	}
	return s
}

func chunkLen(chunks []int64, dim int) int64 {
	if dim < len(chunks) {
		return max(1, chunks[dim])
	}
	return 1
}

// Next moves Sel to the next slab. It returns false after the last one.
func (s *Slabs) Next() bool {
	if s.empty {
		return false
	}
	if s.dim < 0 || !s.begun {
		first := !s.begun
		s.begun = true
		s.clip()
		return first
	}
	step := s.step
	for d := s.dim; d >= 0; d-- {
		if s.Sel.Start[d] += step; s.Sel.Start[d] < s.shape[d] {
			s.clip()
			return true
		}
		s.Sel.Start[d], step = 0, 1
	}
	return false
}

// Skip advances Sel by the number of whole slabs that n elements fill. It stops at the
// last slab before an index of an outer dimension changes. It returns the number of
// elements skipped.
func (s *Slabs) Skip(n int64) int64 {
	if s.dim < 0 {
		return 0
	}
	slab := Selection{Count: s.Sel.Count}.Len() // the size of a full slab, unless Sel is the last one
	k := min(n/slab, (s.shape[s.dim]-1-s.Sel.Start[s.dim])/s.step)
	s.Sel.Start[s.dim] += k * s.step
	s.clip()
	return k * slab
}

// clip sets the count of the divided dimension to the part that remains for this slab.
func (s *Slabs) clip() {
	if s.dim >= 0 {
		s.Sel.Count[s.dim] = min(s.step, s.shape[s.dim]-s.Sel.Start[s.dim])
	}
}

// UpTo returns the shape of the smallest part of Sel, in whole chunks, that contains the
// first n elements of Sel. A selection of that shape contains these elements in the same
// order.
func (s *Slabs) UpTo(n int64) []int64 {
	count := slices.Clone(s.Sel.Count)
	for d := range count {
		inner, edge := Selection{Count: count[d+1:]}.Len(), chunkLen(s.edges, d)
		lines := max(1, (n+inner-1)/inner)
		count[d] = min(count[d], lines+(edge-lines%edge)%edge)
		if lines > 1 {
			break
		}
	}
	return count
}
