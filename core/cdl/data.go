package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// data prints the data section of a group.
func (p *printer) data(g *dataset.Group, vars []*dataset.Var, indent int) error {
	if p.opts.HeaderOnly || len(vars) == 0 || !p.opts.selectsGroup(g) {
		return nil
	}
	p.w.pad(indent)
	p.w.str("data:\n")
	for _, v := range vars {
		if !p.opts.Selects(v) {
			continue
		}
		if err := p.values(v, indent); err != nil {
			return err
		}
	}
	return nil
}

// values prints all values of v, slab by slab. If v cannot be read, values reports a
// problem. It returns only errors that end the whole output.
func (p *printer) values(v *dataset.Var, indent int) error {
	shape := v.Shape()
	if slices.Contains(shape, 0) {
		return nil
	}
	if err := v.CheckSize(); err != nil {
		return p.unreadable(v, err, true)
	}
	out := &rows{
		f: &p.f, w: p.w, name: v.Name(), indent: indent,
		shape: shape, at: make([]int64, len(shape)), braces: make([]bool, len(shape)),
		fill: shownFill(v), keep: v.MaxStrLen() == 0, nuls: shownCharFill(v) != 0,
		cformat: p.ownFormat(v), dates: p.valueMoments(v),
		max: p.opts.lineMax(), notes: p.opts.Notes, order: p.opts.Index,
	}
	for i, d := range v.Dims() {
		out.braces[i] = i > 0 && d.Unlimited()
	}
	size := SlabSize(p.ds)
	ctx, done, err := v.Reserve(p.ctx, size)
	if err != nil {
		return p.unreadable(v, err, true)
	}
	defer done()
	slabs := chunk.NewSlabs(shape, v.Chunks(), max(1, size/ElementSize(v)))
	first := true
	for slabs.Next() {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		err := v.ReadParts(ctx, slabs.Sel, func(_ chunk.Selection, part any) error {
			if first {
				out.begin()
				first = false
			}
			out.print(v.Type(), part)
			return nil
		})
		if err != nil {
			return p.unreadable(v, err, first)
		}
		if err := p.w.err(); err != nil {
			return err
		}
	}
	return nil
}

// unreadable reports a variable that cannot be read. If some values are already printed,
// it prints a comment instead of the rest and the closing semicolon, so that a reader
// does not accept the values as complete.
func (p *printer) unreadable(v *dataset.Var, err error, first bool) error {
	if ncerr.IsContext(err) {
		return err
	}
	p.problem(v.Path(), err)
	if !first {
		p.w.printf("\n// the rest of %s cannot be read\n", escapeName(v.Name()))
	}
	return nil
}

// SlabSize returns the maximum memory in bytes for the values of a variable of ds that Write
// holds at a time: MaxSlab, or less if the budget of ds is small.
func SlabSize(ds *dataset.Dataset) int64 { return min(MaxSlab, ds.Budget().ForCalls()/8) }

// ElementSize returns the maximum memory of one value of v in bytes.
func ElementSize(v *dataset.Var) int64 {
	if v.Type() == dtype.NCString {
		return 16 + 2*int64(v.MaxStrLen()) // header, content and stored form
	}
	return int64(v.Type().Size())
}

// shownFill returns the value that is printed as _: the attribute _FillValue if it is
// one value of the variable's type, and otherwise netCDF's default. It returns nil for
// one-byte types without the attribute, for which every value is likely to be data, and
// for strings.
//
// Source: netcdf-c ncdump.
func shownFill(v *dataset.Var) any {
	if a, err := v.Attr("_FillValue"); err == nil && a.Type == v.Type() && v.Type() != dtype.NCChar && dtype.Len(a.Value) == 1 {
		return a.Value
	}
	switch v.Type() {
	case dtype.NCByte, dtype.NCUByte, dtype.NCChar, dtype.NCString:
		return nil
	}
	return dtype.DefaultFill(v.Type())
}

// shownCharFill returns the byte that a reader of the CDL output uses to pad the
// strings of a char variable.
func shownCharFill(v *dataset.Var) byte {
	if a, err := v.Attr("_FillValue"); err == nil && v.Type() == dtype.NCChar {
		if text, ok := a.Value.(string); ok && text != "" {
			return text[0]
		}
	}
	return 0
}
