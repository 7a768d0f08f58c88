package chunk

// A Mover copies the elements of projections between a chunk and a C-order array of the
// selection's shape. It must not be used concurrently.
type Mover struct {
	elem   int64
	plan   *Plan
	outer  []int64 // byte strides of the selection's array
	inner  []int64 // byte strides of the chunk, by dimension
	order  []int   // order in which a chunk stores its dimensions; nil means C order
	stored int64   // size of an element of the chunk in bytes
	loops  []loop
	run    int64 // length in bytes of runs that are contiguous on both sides
	offOut int64
	offIn  int64
	buf    [line * line]byte
	square bool  // copy the first two loops in squares
	merged int   // number of loops within a piece; see Pieces
	base   int64 // offset of the field in an element of the chunk; see Field
}

type loop struct{ n, out, in int64 }

// NewMover returns a Mover for plan with elements of elem bytes. count is the shape of
// the selection, and chunks is the shape of a chunk, or of any chunk if they differ.
// transpose, if not nil, is the order in which a chunk stores its dimensions: stored
// dimension i is dimension transpose[i].
func NewMover(plan *Plan, count, chunks []int64, transpose []int, elem int) *Mover {
	m := &Mover{elem: int64(elem), plan: plan, outer: strides(count, nil, elem), inner: strides(chunks, transpose, elem), order: transpose, stored: int64(elem)}
	m.loops = make([]loop, 0, len(count))
	return m
}

// Field makes m copy one field of structures. Elements of the chunk have size bytes, and
// the field is at offset. The element size passed to NewMover is the size of the field,
// and applies to the selection's array.
func (m *Mover) Field(size, offset int) {
	for d := range m.inner {
		m.inner[d] = m.inner[d] / m.elem * int64(size)
	}
	m.base, m.stored = int64(offset), int64(size)
}

// setInner sets the strides of the chunk of proj.
func (m *Mover) setInner(proj Projection) {
	step := m.stored
	for i := len(proj) - 1; i >= 0; i-- {
		d := i
		if m.order != nil {
			d = m.order[i]
		}
		m.inner[d] = step
		step *= proj[d].Size
	}
}

// strides returns the byte stride of each dimension of an array of the given shape
// whose dimensions are stored in the given order. A nil order means C order.
func strides(shape []int64, order []int, elem int) []int64 {
	s := make([]int64, len(shape))
	step := int64(elem)
	for i := len(shape) - 1; i >= 0; i-- {
		d := i
		if order != nil {
			d = order[i]
		}
		s[d] = step
		step *= shape[d]
	}
	return s
}

// prepare converts a projection into nested loops over runs of bytes that are
// contiguous on both sides.
func (m *Mover) prepare(proj Projection) {
	m.loops, m.run, m.offOut, m.offIn = m.loops[:0], m.elem, 0, m.base
	if m.plan.varies {
		m.setInner(proj)
	}
	for d := len(proj) - 1; d >= 0; d-- {
		s := proj[d]
		m.offOut += s.Out * m.outer[d]
		m.offIn += s.First * m.inner[d]
		l := loop{n: s.N, out: m.outer[d], in: m.inner[d] * m.plan.dims[d].step}
		k := len(m.loops)
		switch {
		case l.n == 1:
		case k == 0 && l.out == m.run && l.in == m.run:
			m.run *= l.n
		case k > 0 && l.out == m.loops[k-1].out*m.loops[k-1].n && l.in == m.loops[k-1].in*m.loops[k-1].n:
			m.loops[k-1].n *= l.n
		default:
			m.loops = append(m.loops, l)
		}
	}
}

// Contiguous reports whether the projection is one run of bytes on both sides. It
// returns the offsets of the run in the selection's array and in the chunk, and its
// length.
func (m *Mover) Contiguous(proj Projection) (out, in, n int64, ok bool) {
	m.prepare(proj)
	return m.offOut, m.offIn, m.run, len(m.loops) == 0
}

// Scatter copies from a chunk into the selection's array.
func (m *Mover) Scatter(array, chunk []byte, proj Projection) {
	m.prepare(proj)
	m.square = m.orderLoops()
	m.walk(array, chunk, m.offOut, m.offIn, len(m.loops)-1, true)
}

// Gather copies from the selection's array into a chunk.
func (m *Mover) Gather(chunk, array []byte, proj Projection) {
	m.prepare(proj)
	m.square = m.orderLoops()
	m.walk(array, chunk, m.offOut, m.offIn, len(m.loops)-1, false)
}

// line is the side length in bytes of the squares in which elements are copied if they
// are contiguous on one side and scattered on the other. It is the size of a cache line,
// so that each line is accessed only once.
const line = 64

// orderLoops moves the loop over elements that are contiguous in the chunk to the second
// position. It reports whether the first two loops must be copied in squares.
func (m *Mover) orderLoops() bool {
	if len(m.loops) < 2 || m.run > 16 || m.loops[0].in == m.run {
		return false
	}
	for k := 1; k < len(m.loops); k++ {
		if m.loops[k].in == m.run {
			m.loops[1], m.loops[k] = m.loops[k], m.loops[1]
			return m.loops[0].n > 1
		}
	}
	return false
}

// squares copies the elements of the first two loops square by square through a buffer.
func (m *Mover) squares(array, chunk []byte, out, in int64, scatter bool) {
	a, b := m.loops[0], m.loops[1]
	side := max(line/m.run, 4)
	row := side * m.run
	buf := m.buf[:]
	for j := int64(0); j < b.n; j += side {
		nb := min(side, b.n-j)
		for i := int64(0); i < a.n; i += side {
			na := min(side, a.n-i)
			o, c := out+j*b.out+i*a.out, in+j*b.in+i*a.in
			if scatter {
				for x := range na {
					copy(buf[x*row:x*row+nb*m.run], chunk[c+x*a.in:])
				}
				for y := range nb {
					copyRuns(array, buf, o+y*b.out, y*m.run, a.out, row, na, m.run)
				}
				continue
			}
			for y := range nb {
				copyRuns(buf, array, y*m.run, o+y*b.out, row, a.out, na, m.run)
			}
			for x := range na {
				copy(chunk[c+x*a.in:c+x*a.in+nb*m.run], buf[x*row:])
			}
		}
	}
}

func (m *Mover) walk(array, chunk []byte, out, in int64, k int, scatter bool) {
	if k == 1 && m.square {
		m.squares(array, chunk, out, in, scatter)
		return
	}
	if k > 0 {
		l := m.loops[k]
		for range l.n {
			m.walk(array, chunk, out, in, k-1, scatter)
			out += l.out
			in += l.in
		}
		return
	}
	l := loop{n: 1}
	if k == 0 {
		l = m.loops[0]
	}
	dst, src, d, s, ds, ss := array, chunk, out, in, l.out, l.in
	if !scatter {
		dst, src, d, s, ds, ss = chunk, array, in, out, l.in, l.out
	}
	copyRuns(dst, src, d, s, ds, ss, l.n, m.run)
}

// copyRuns copies n runs of run bytes each, with strides ds and ss. Common element sizes
// have separate loops, because a call to copy takes longer than a move of so few bytes.
func copyRuns(dst, src []byte, d, s, ds, ss, n, run int64) {
	switch run {
	case 1:
		for range n {
			dst[d] = src[s]
			d += ds
			s += ss
		}
	case 2:
		for range n {
			*(*[2]byte)(dst[d:]) = *(*[2]byte)(src[s:])
			d += ds
			s += ss
		}
	case 4:
		for range n {
			*(*[4]byte)(dst[d:]) = *(*[4]byte)(src[s:])
			d += ds
			s += ss
		}
	case 8:
		for range n {
			*(*[8]byte)(dst[d:]) = *(*[8]byte)(src[s:])
			d += ds
			s += ss
		}
	default:
		for range n {
			copy(dst[d:d+run], src[s:s+run])
			d += ds
			s += ss
		}
	}
}

// Each calls f for each element of the projection, with its positions in the selection's
// array and in the chunk, counted in elements. The Mover must have been created for
// elements of 1 byte.
func (m *Mover) Each(proj Projection, f func(out, in int64)) {
	m.prepare(proj)
	m.each(m.offOut, m.offIn, len(m.loops)-1, f)
}

func (m *Mover) each(out, in int64, k int, f func(out, in int64)) {
	if k < 0 {
		for i := range m.run {
			f(out+i, in+i)
		}
		return
	}
	l := m.loops[k]
	for range l.n {
		m.each(out, in, k-1, f)
		out += l.out
		in += l.in
	}
}

// EachRun calls f for each run of elements of the projection that are contiguous in the
// chunk and in the selection's array, with its position in the chunk and its length,
// counted in elements. The Mover must have been created for elements of 1 byte.
func (m *Mover) EachRun(proj Projection, f func(in, n int64)) {
	m.prepare(proj)
	m.eachRun(m.offIn, len(m.loops)-1, f)
}

func (m *Mover) eachRun(in int64, k int, f func(in, n int64)) {
	if k < 0 {
		f(in, m.run)
		return
	}
	l := m.loops[k]
	for range l.n {
		m.eachRun(in, k-1, f)
		in += l.in
	}
}

// Fill sets the projection's part of the selection's array to the element fill.
func (m *Mover) Fill(array, fill []byte, proj Projection) {
	m.prepare(proj)
	m.fill(array, fill, m.offOut, len(m.loops)-1)
}

func (m *Mover) fill(array, fill []byte, out int64, k int) {
	if k < 0 {
		Repeat(array[out:out+m.run], fill)
		return
	}
	l := m.loops[k]
	for range l.n {
		m.fill(array, fill, out, k-1)
		out += l.out
	}
}

// Repeat fills dst with copies of elem. len(dst) must be a multiple of len(elem). An
// empty elem means zeros.
func Repeat(dst, elem []byte) {
	zero := true
	for _, b := range elem {
		zero = zero && b == 0
	}
	if zero {
		clear(dst)
		return
	}
	for n := copy(dst, elem); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
