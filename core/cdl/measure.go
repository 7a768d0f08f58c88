package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// The data of a variable is one flat list, except that every unlimited dimension after
// the first starts a nested list in braces. The dimensions are therefore divided into
// blocks. The first block starts at dimension 0, and each later block at an unlimited
// dimension. A list of the last block contains values, and a list of another block
// contains lists of the next block.
//
// Source: the netCDF CDL manual, "variables with more than one unlimited
// dimension".

// blocks returns the first dimension of each block.
func blocks(v *Var) []int {
	starts := []int{0}
	for i := 1; i < len(v.Dims); i++ {
		if v.Dims[i].Dim.Unlimited {
			starts = append(starts, i)
		}
	}
	return starts
}

// measurer determines the lengths of unlimited dimensions from the data.
type measurer struct {
	converter
	lens map[*Dim]int64
}

// length returns the known length of a dimension.
func (m *measurer) length(d *Dim) int64 {
	if d.Unlimited {
		return m.lens[d]
	}
	return d.Len
}

// all measures all variables of g and its subgroups.
func (m *measurer) all(f *File, g *Group) error {
	for _, v := range g.Vars {
		if !v.HasData || !slices.ContainsFunc(v.Dims, func(r DimRef) bool { return r.Dim.Unlimited }) {
			continue
		}
		one := measure{m: m, v: v, starts: blocks(v)}
		if len(one.starts) == 1 && v.Type != dtype.NCChar {
			one.list(0, v.data.count) // values counted by Parse
			continue
		}
		if err := f.walk(v, &one); err != nil {
			return err
		}
	}
	for _, sub := range g.Groups {
		if err := m.all(f, sub); err != nil {
			return err
		}
	}
	return nil
}

// measure is the dataSink that determines the lengths that one variable requires.
type measure struct {
	m      *measurer
	v      *Var
	starts []int
	n      int64
	chars  packer
}

func (s *measure) begin([]int64, Pos) error {
	s.n = 0
	if s.v.Type == dtype.NCChar {
		s.chars = s.m.packerFor(s.v, func(_ []byte, pad int64) error {
			s.n += pad
			return nil
		}, func(text []byte) error {
			s.n += int64(len(text))
			return nil
		})
	}
	return nil
}

func (s *measure) value(v *Value) error {
	if s.v.Type == dtype.NCChar {
		return s.chars.add(v)
	}
	s.n++
	return nil
}

func (s *measure) end() error {
	if s.v.Type == dtype.NCChar {
		if err := s.chars.end(); err != nil {
			return err
		}
	}
	s.list(len(s.starts)-1, s.n)
	return nil
}

// list extends the unlimited dimension of a block to fit a list of n items.
func (s *measure) list(level int, n int64) {
	first, end := s.starts[level], len(s.v.Dims)
	if level+1 < len(s.starts) {
		end = s.starts[level+1]
	}
	d := s.v.Dims[first].Dim
	if !d.Unlimited {
		return
	}
	inner := make([]int64, 0, end-first)
	for _, ref := range s.v.Dims[first+1 : end] {
		inner = append(inner, ref.Dim.Len)
	}
	if size := chunk.Product(inner); size > 0 && n > 0 {
		s.m.lens[d] = max(s.m.lens[d], (n-1)/size+1)
	}
}

// charFill returns the fill byte of a char variable.
func charFill(v *Var) byte {
	if a := findAttr(v.Attrs, "_FillValue"); a != nil && len(a.Values) == 1 {
		switch x := a.Values[0]; {
		case x.Kind == Text && x.Text != "":
			return x.Text[0]
		case x.Kind == Char:
			return byte(x.Bits)
		}
	}
	return 0
}
