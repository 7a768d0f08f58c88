package dataset

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// record is the structured or complex array of which a variable is one field.
type record struct {
	array  string // name of the array
	dtype  dtype.Type
	fill   []byte
	offset int // offset of the field in an element
}

// stored returns the element type and the fill value of the array. For a field, it
// returns the type and the fill value of the whole structure.
func (v *Var) stored() (dtype.Type, []byte) {
	if v.in != nil {
		return v.in.dtype, v.in.fill
	}
	return v.meta.DType, v.meta.Fill
}

// arrayName returns the name of the array in the store.
func (v *Var) arrayName() string {
	if v.in != nil {
		return v.in.array
	}
	return v.name
}

// checkAlterable fails for a field of a structured array, and for an array that has
// documents of two versions.
func (v *Var) checkAlterable(op string) error {
	switch {
	case v.both:
		return errTwoVersions(op, v.Path())
	case v.in == nil:
		return nil
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, op, v.Path(), "the variable is a field of the array %q with elements of %d bytes, which is read-only", v.in.array, v.in.dtype.Size)
}

// errTwoVersions returns the error for a change to a node that has documents of two
// versions.
func errTwoVersions(op, path string) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, op, path, "the node has both Zarr v3 and Zarr v2 documents, and a change would update only one set")
}

// addFields adds a variable for each field of a structured or complex array. The name
// of the variable is the name of the array, a dot and the name of the field. The array
// itself is preserved when metadata is written.
func (l *loader) addFields(n node, meta *zarr.Array) {
	for _, w := range meta.Warnings {
		l.ds.log.Warn(w, "path", join(n.parent.Path(), n.name))
	}
	attrs := withoutFill(meta.Attrs) // shared by all fields, because there may be many fields and attributes
	for _, f := range meta.Fields {
		v := &Var{group: n.parent, name: n.name + "." + f.Name}
		v.data.atRoot = l.ds.arrayOnly
		v.in = &record{array: n.name, dtype: meta.DType, fill: meta.Fill, offset: f.Offset}
		if f.Err != nil {
			l.problem(v.Path(), ncerr.Wrap("open", v.Path(), f.Err))
			continue
		}
		part := *meta
		part.Warnings, part.Fields, part.DType = nil, nil, f.Type
		if meta.HasFill {
			part.Fill = meta.Fill[f.Offset : f.Offset+f.Type.Size]
		}
		part.Attrs = attrs
		if err := l.buildVar(v, n, parsed{path: v.Path(), meta: &part}); err != nil {
			l.problem(v.Path(), err)
			continue
		}
		n.parent.vars.add(v)
	}
	if !l.ds.arrayOnly {
		n.parent.omitted = append(n.parent.omitted, n)
	}
}

// withoutFill returns the attributes without _FillValue, which applies to the whole
// structure.
func withoutFill(attrs []Attr) []Attr {
	is := func(a Attr) bool { return a.Name == fillAttr }
	if !slices.ContainsFunc(attrs, is) {
		return attrs
	}
	return slices.DeleteFunc(slices.Clone(attrs), is)
}
