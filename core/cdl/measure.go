package cdl

import (
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The data of a variable is one flat list, except that every unlimited
// dimension after the first begins a list in braces of its own. The
// dimensions therefore fall into blocks: the first begins at dimension 0, the
// others at the unlimited dimensions behind it. An item of a list is a value
// in the last block, else a list for the next block.
//
// Source: the netCDF CDL manual, "variables with more than one unlimited
// dimension".

// blocks gives the first dimension of each block.
func blocks(v *Var) []int {
	starts := []int{0}
	for i := 1; i < len(v.Dims); i++ {
		if v.Dims[i].Dim.Unlimited {
			starts = append(starts, i)
		}
	}
	return starts
}

// measurer finds the lengths of unlimited dimensions from the data.
type measurer struct {
	converter
	lens map[*Dim]int64
}

// length gives the length of a dimension as far as it is known.
func (m *measurer) length(d *Dim) int64 {
	if d.Unlimited {
		return m.lens[d]
	}
	return d.Len
}

// all measures all variables below g.
func (m *measurer) all(g *Group) error {
	for _, v := range g.Vars {
		if !v.HasData || len(v.Dims) == 0 {
			continue
		}
		if err := m.list(v, v.Data, blocks(v)); err != nil {
			return err
		}
	}
	for _, sub := range g.Groups {
		if err := m.all(sub); err != nil {
			return err
		}
	}
	return nil
}

// list measures the list of the block that begins at starts[0].
func (m *measurer) list(v *Var, items []Value, starts []int) error {
	n, end := int64(len(items)), len(v.Dims)
	if len(starts) > 1 {
		end = starts[1]
		for _, item := range items {
			if item.Kind != List {
				return m.fail(ncerr.ErrInvalid, item.Pos, "the values along unlimited dimension %q, which is not the first, must be in braces", v.Dims[end].Path)
			}
			if err := m.list(v, *item.Sub, starts[1:]); err != nil {
				return err
			}
		}
	} else {
		var err error
		if n, err = m.count(v, items); err != nil {
			return err
		}
	}
	d := v.Dims[starts[0]].Dim
	if !d.Unlimited {
		return nil
	}
	inner := int64(1)
	for _, ref := range v.Dims[starts[0]+1 : end] {
		inner *= ref.Dim.Len
	}
	if inner > 0 {
		m.lens[d] = max(m.lens[d], (n+inner-1)/inner)
	}
	return nil
}

// count gives the number of values in a list without inner blocks.
func (m *measurer) count(v *Var, items []Value) (int64, error) {
	items = flatten(items)
	if v.Type != dtype.NCChar {
		return int64(len(items)), nil
	}
	text, err := m.charsOf(v, items)
	return int64(len(text)), err
}

// charsOf gives the bytes of a list of a char variable, each string filled up
// to the last dimension unless that is the only one or unlimited.
func (m *measurer) charsOf(v *Var, items []Value) ([]byte, error) {
	unit, padEmpty := int64(1), true
	if rank := len(v.Dims); rank > 0 {
		last := v.Dims[rank-1].Dim
		padEmpty = !last.Unlimited
		if rank > 1 && !last.Unlimited && last.Len > 0 {
			unit = last.Len
		}
	}
	return m.chars(items, unit, charFill(v), padEmpty)
}

// charFill gives the fill byte of a char variable.
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

// flatten takes lists in braces apart.
func flatten(items []Value) []Value {
	nested := false
	for _, item := range items {
		nested = nested || item.Kind == List
	}
	if !nested {
		return items
	}
	var flat []Value
	for _, item := range items {
		if item.Kind == List {
			flat = append(flat, flatten(*item.Sub)...)
		} else {
			flat = append(flat, item)
		}
	}
	return flat
}
