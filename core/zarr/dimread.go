package zarr

import (
	"strings"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// arrayBlock parses NCZarr's block of an array: the dimension references, scalar and
// storage. References that do not fit the shape are an error in Zarr v3. In Zarr v2 they are
// ignored with a warning, because old releases wrote them.
func (n *node) arrayBlock(a *Array, hint ParseHint) (jsontext.Value, error) {
	if hint.Pure {
		return "", nil
	}
	v, p, err := n.block(arrayBlock)
	if err != nil || v == "" {
		return "", err
	}
	a.Layout = p.layout
	if s := v.Get("storage"); s.Kind() == jsontext.String {
		a.Storage = s.Text()
	}
	if a.Scalar = a.Storage == "scalar" || isTrue(v.Get("scalar")); a.Scalar && !a.isScalarShape() {
		n.warn("%s: %s: scalar with shape %v and chunks %v is read as an array", n.key(p.doc), p.member, a.Shape, a.Chunks)
		a.Scalar = false
	}
	refs, name := either(v, "dimension_references", "dimrefs")
	if refs == "" || refs.Kind() == jsontext.Null {
		return v, nil
	}
	list, ok := stringsIn(refs)
	if !ok {
		return "", n.bad(p.doc, name, "expected an array of dimension names, found %s", clip(refs))
	}
	if len(list) == 0 && a.isScalarShape() {
		a.Scalar = true
	}
	switch {
	case n.v3 && (len(list) != a.rank() || !allRefs(list)):
		return "", n.bad(p.doc, name, "expected the names of %d dimensions, found %s", a.rank(), clip(refs))
	case len(list) != a.rank():
		n.warn("%s: %s: ignored %d names for %d dimensions", n.key(p.doc), name, len(list), a.rank())
	case !allRefs(list):
		n.warn("%s: %s: ignored %s, which contains an invalid dimension name", n.key(p.doc), name, clip(refs))
	default:
		a.DimRefs = list
	}
	return v, nil
}

// rank returns the number of netCDF dimensions.
func (a *Array) rank() int {
	if a.Scalar {
		return 0
	}
	return len(a.Shape)
}

// isScalarShape reports whether the array has the stored form of a scalar.
func (a *Array) isScalarShape() bool {
	return len(a.Shape) == 0 || len(a.Shape) == 1 && a.Shape[0] == 1 && a.Chunks[0] == 1
}

// allRefs reports whether all strings are valid dimension references. A reference is an
// absolute name, or one relative to the group of the array, which libnetcdf accepts too.
func allRefs(list []string) bool {
	for _, ref := range list {
		for seg := range strings.SplitSeq(strings.TrimPrefix(ref, "/"), "/") {
			if !validName(seg) {
				return false
			}
		}
	}
	return true
}

// dimNames parses _ARRAY_DIMENSIONS and detects the scalars of pure Zarr: shape [], or
// one element with the dimensions ["_scalar_"] or [].
func (n *node) dimNames(a *Array, hint ParseHint) error {
	if len(a.Shape) == 0 {
		a.Scalar = true
	}
	attrs, doc := n.attrsDoc()
	v := attrs.get(xarrayDims)
	if v == "" {
		return nil
	}
	names, ok := stringsIn(v)
	if ok && a.isScalarShape() && (len(names) == 0 || len(names) == 1 && names[0] == scalarDim) {
		a.Scalar = true
	}
	if hint.NoXarray {
		return nil
	}
	if a.Scalar && ok && len(names) == 1 && names[0] == scalarDim {
		names = names[:0]
	}
	for _, name := range names {
		ok = ok && validName(name)
	}
	switch {
	case !ok:
		n.warn("%s: %s: expected an array of names, found %s; the attribute is ignored", n.key(doc), xarrayDims, clip(v))
	case len(names) != a.rank():
		n.warn("%s: %s: ignored %d names for %d dimensions", n.key(doc), xarrayDims, len(names), a.rank())
	default:
		a.DimNames = names
	}
	return nil
}
