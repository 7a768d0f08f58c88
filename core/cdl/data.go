package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// data prints the data section of a group.
func (p *printer) data(g *nczarr.Group, vars []*nczarr.Var, indent int) error {
	if p.opts.HeaderOnly || len(vars) == 0 || !p.opts.wantsGroup(g) {
		return nil
	}
	p.w.pad(indent)
	p.w.str("data:\n")
	for _, v := range vars {
		if !p.opts.Wants(v) {
			continue
		}
		if err := p.values(v, indent); err != nil {
			return err
		}
	}
	return nil
}

// values prints all values of v, slab by slab. What cannot be read is a
// problem; an error is returned for what ends the whole printing.
func (p *printer) values(v *nczarr.Var, indent int) error {
	shape := v.Shape()
	if slices.Contains(shape, 0) {
		return nil
	}
	if err := v.CheckSize(); err != nil {
		return p.unreadable(v, err, true)
	}
	unlimited := make([]bool, len(shape))
	for i, d := range v.Dims() {
		unlimited[i] = d.Unlimited()
	}
	out := newRows(&p.f, p.w, indent, v.Name(), shape, unlimited)
	out.fill, out.keep, out.nuls = fillShown(v), v.MaxStrLen() == 0, charFillShown(v) != 0
	out.own, out.when = p.ownFormat(v), p.valueMoments(v)
	out.max, out.notes, out.order = p.opts.lineMax(), p.opts.Notes, p.opts.Index
	slabs := newSlabs(shape, v.Chunks(), MaxSlab/elementSize(v))
	for first := true; slabs.next(); first = false {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		slab := v.NewSlice(slabs.sel.Len())
		if err := v.Read(p.ctx, slabs.sel, slab); err != nil {
			return p.unreadable(v, err, first)
		}
		if first {
			out.begin()
		}
		out.print(v.Type(), slab)
		if err := p.w.err(); err != nil {
			return err
		}
	}
	return nil
}

// unreadable reports a variable that cannot be read. When values have been
// printed already, a comment says that the rest is missing: the semicolon is
// missing too, so that nobody takes it for all.
func (p *printer) unreadable(v *nczarr.Var, err error, first bool) error {
	if ncerr.IsContext(err) {
		return err
	}
	p.problem(v.Path(), err)
	if !first {
		p.w.printf("\n// the rest of %s cannot be read\n", escapeName(v.Name()))
	}
	return nil
}

// elementSize is the memory of one value of v, in bytes, at most.
func elementSize(v *nczarr.Var) int64 {
	if v.Type() == dtype.NCString {
		return 16 + 2*int64(v.MaxStrLen()) // header, content and the stored form
	}
	return int64(v.Type().Size())
}

// fillShown gives the value that is printed as _: the _FillValue attribute
// when it is one value of the variable's type, else netCDF's default.
func fillShown(v *nczarr.Var) any {
	if a, err := v.Attr("_FillValue"); err == nil && a.Type == v.Type() && v.Type() != dtype.NCChar && dtype.Len(a.Value) == 1 {
		return a.Value
	}
	return defaultFill(v.Type())
}

// charFillShown gives the byte with which a reader of the text fills up the
// strings of a char variable.
func charFillShown(v *nczarr.Var) byte {
	if a, err := v.Attr("_FillValue"); err == nil && v.Type() == dtype.NCChar {
		if text, ok := a.Value.(string); ok && text != "" {
			return text[0]
		}
	}
	return 0
}

// slabs cuts an array into selections that follow each other in row-major
// order, each of at most a number of elements.
type slabs struct {
	shape []int64
	edges []int64 // the shape of chunks
	sel   chunk.Selection
	dim   int   // the dimension that is cut
	step  int64 // indices of it in one slab
	begun bool
}

// newSlabs cuts shape into slabs of at most limit elements (1 at least). The
// cut is along chunk edges where that is possible.
func newSlabs(shape, chunks []int64, limit int64) *slabs {
	s := &slabs{shape: shape, edges: chunks, dim: len(shape) - 1}
	s.sel = chunk.Selection{Start: make([]int64, len(shape)), Count: make([]int64, len(shape))}
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
		s.sel.Count[d] = 1
		if d > s.dim {
			s.sel.Count[d] = shape[d]
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

// next moves sel to the next slab; false after the last.
func (s *slabs) next() bool {
	if s.dim < 0 || !s.begun {
		first := !s.begun
		s.begun = true
		s.clip()
		return first
	}
	step := s.step
	for d := s.dim; d >= 0; d-- {
		if s.sel.Start[d] += step; s.sel.Start[d] < s.shape[d] {
			s.clip()
			return true
		}
		s.sel.Start[d], step = 0, 1
	}
	return false
}

// clip sets how much of the cut dimension is left for this slab.
func (s *slabs) clip() {
	if s.dim >= 0 {
		s.sel.Count[s.dim] = min(s.step, s.shape[s.dim]-s.sel.Start[s.dim])
	}
}

// upTo gives how much of sel, in whole chunks, holds its first n elements: a
// selection of that shape has them in the same order.
func (s *slabs) upTo(n int64) []int64 {
	count := slices.Clone(s.sel.Count)
	for d := range count {
		inner, edge := product(count[d+1:]), chunkLen(s.edges, d)
		lines := max(1, (n+inner-1)/inner)
		count[d] = min(count[d], lines+(edge-lines%edge)%edge)
		if lines > 1 {
			break
		}
	}
	return count
}
