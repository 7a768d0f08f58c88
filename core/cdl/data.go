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
		if !p.opts.Selects(v) {
			continue
		}
		if err := p.values(v, indent); err != nil {
			return err
		}
	}
	return nil
}

// values prints all values of v, slab by slab. It reports a variable that cannot be
// read as a problem, and returns only errors that end the whole output.
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
	out.cformat, out.dates = p.ownFormat(v), p.valueMoments(v)
	out.max, out.notes, out.order = p.opts.lineMax(), p.opts.Notes, p.opts.Index
	slabs := chunk.NewSlabs(shape, v.Chunks(), MaxSlab/ElementSize(v))
	first := true
	for slabs.Next() {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		err := v.ReadParts(p.ctx, slabs.Sel, func(_ chunk.Selection, part any) error {
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

// ElementSize returns the maximum memory of one value of v in bytes.
func ElementSize(v *nczarr.Var) int64 {
	if v.Type() == dtype.NCString {
		return 16 + 2*int64(v.MaxStrLen()) // header, content and stored form
	}
	return int64(v.Type().Size())
}

// fillShown returns the value that is printed as _: the attribute _FillValue if it is
// one value of the variable's type, and otherwise netCDF's default.
func fillShown(v *nczarr.Var) any {
	if a, err := v.Attr("_FillValue"); err == nil && a.Type == v.Type() && v.Type() != dtype.NCChar && dtype.Len(a.Value) == 1 {
		return a.Value
	}
	return defaultFill(v.Type())
}

// charFillShown returns the byte that a reader of the CDL output uses to pad the strings
// of a char variable.
func charFillShown(v *nczarr.Var) byte {
	if a, err := v.Attr("_FillValue"); err == nil && v.Type() == dtype.NCChar {
		if text, ok := a.Value.(string); ok && text != "" {
			return text[0]
		}
	}
	return 0
}
