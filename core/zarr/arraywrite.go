package zarr

import (
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Docs returns the array's documents: zarr.json, or .zarray and, depending on the layout,
// .zattrs and NCZarr's own. A scalar is written with shape [] in pure Zarr and [1] in
// NCZarr, regardless of Shape. _ARRAY_DIMENSIONS holds DimNames, or else the last
// segments of DimRefs. The attribute is omitted if both are nil, unless the array is a
// scalar.
//
// In v2 the codec chain becomes filters and compressor: the last codec is the compressor
// unless NoCompressor is set.
//
// Docs fails with ErrInvalid for an inconsistent Array. It fails with ErrUnsupported
// for anything the Zarr version cannot express: in v2 a transpose that is not a
// reversal, and a one-character string in a layout where that means char; in v3 some
// codec chains and structured elements. It fails with ErrBadName, ErrNameInUse and
// ErrBadType as [Group.Docs] does.
func (a *Array) Docs(opts WriteOptions) (Docs, error) {
	o, err := newOutput(opts)
	if err != nil {
		return nil, err
	}
	if err := a.check(o.s); err != nil {
		return nil, err
	}
	if o.s.v3 {
		return o.arrayV3(a, opts.NoXarray)
	}
	if err := o.array(a); err != nil {
		return nil, err
	}
	s := o.s
	types := o.attrs(a.Attrs, attrReader{})
	named := false
	if !opts.NoXarray && (!s.rootXarray || opts.IsRoot) {
		var names []string
		if names, named = a.xarrayNames(s); named {
			o.doc(AttrsDoc).Key(xarrayDims).Strings(names)
		}
	}
	if s.alwaysAttrs {
		o.doc(AttrsDoc)
	}
	if s.pure {
		return o.finish(!named), nil
	}
	o.arrayBlock(a)
	o.types(types, []string{s.arrayName})
	return o.finish(!named), nil
}

func (a *Array) check(s *spelling) error {
	rank := len(a.Shape)
	switch {
	case len(a.Chunks) != rank:
		return invalid("chunk shape %v and shape %v have different ranks", a.Chunks, a.Shape)
	case a.Scalar && !a.isScalarShape():
		return invalid("a scalar cannot have shape %v", a.Shape)
	case a.DimNames != nil && len(a.DimNames) != a.rank(), a.DimRefs != nil && len(a.DimRefs) != a.rank():
		return invalid("dimension names %q or references %q do not match %d dimensions", a.DimNames, a.DimRefs, a.rank())
	case a.Transpose != nil && !s.v3 && !slices.Equal(a.Transpose, reversed(rank)):
		return ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "storage order %v requires Zarr v3; Zarr v2 supports only C and F order", a.Transpose)
	case (a.Keys.Prefix || a.Keys.Suffix != "") && !s.v3 || a.Keys.Separator != 0 && a.Keys.Separator != '.' && a.Keys.Separator != '/':
		return invalid("the layout does not support the chunk key encoding %+v", a.Keys)
	case !a.DType.Fixed() && a.DType.Kind != dtype.String && a.DType.Kind != dtype.VlenBytes:
		return invalid("elements of type %s cannot be written", a.DType)
	}
	for i := range a.Shape {
		if a.Shape[i] < 0 || a.Chunks[i] < 1 {
			return invalid("chunk shape %v or shape %v has an invalid length", a.Chunks, a.Shape)
		}
	}
	if err := a.checkGrid(s); err != nil {
		return err
	}
	if !allRefs(a.DimRefs) {
		return ncerr.Errorf(ncerr.ErrBadName, "write metadata", strings.Join(a.DimRefs, " "), "a dimension name is empty, has a control character, or is not UTF-8")
	}
	if s.v3 {
		if err := a.checkChainV3(); err != nil {
			return err
		}
	}
	return checkAttrs(a.Attrs, s)
}

// checkGrid fails if the rectilinear grid of the array, if it has one, cannot be written.
func (a *Array) checkGrid(s *spelling) error {
	g := a.ObjectGrid()
	switch {
	case g.Regular():
		return nil
	case !s.v3:
		return ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "only pure Zarr v3 supports chunks of different shapes")
	case g.Rank() != len(a.Shape), a.Grid != nil && len(a.Shards) > 0, !slices.Equal(a.ChunkGrid().Largest(), a.Chunks):
		return invalid("the chunk grid does not match chunk shape %v", a.Chunks)
	}
	if d := g.Uncovered(a.Shape); d >= 0 {
		return invalid("chunk lengths %s do not cover shape %v", GridText(g), a.Shape)
	}
	return nil
}

// array writes the members of .zarray that all layouts share.
func (o *output) array(a *Array) error {
	shape, chunks := a.Shape, a.Chunks
	if a.Scalar {
		shape, chunks = []int64{}, []int64{}
		if !o.s.pure {
			shape, chunks = []int64{1}, []int64{1}
		}
	}
	w := o.doc(ArrayDoc)
	w.Key("zarr_format").Int(2)
	w.Key("shape").Ints(shape)
	if w.Key("dtype"); a.isStruct() {
		if err := o.fields(w, a.Fields); err != nil {
			return err
		}
	} else {
		name, err := o.dtypeText(a.DType)
		if err != nil {
			return err
		}
		w.String(name)
	}
	w.Key("chunks").Ints(chunks)
	w.Key("fill_value")
	if err := writeFill(w, a, o.s.pure); err != nil {
		return err
	}
	w.Key("order").String(map[bool]string{true: "C", false: "F"}[len(a.Transpose) < 2])
	for _, c := range a.Codecs {
		if OnlyV3(c.ID) {
			return ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "the codec %q exists only in Zarr v3", c.ID)
		}
	}
	filters, compressor := a.splitCodecs()
	w.Key("compressor")
	if compressor == nil {
		w.Raw("null")
	} else if err := writeCodec(w, *compressor); err != nil {
		return err
	}
	w.Key("filters")
	if err := writeFilters(w, filters); err != nil {
		return err
	}
	if a.Keys.Separator == '/' {
		w.Key("dimension_separator").String("/")
	}
	return nil
}

// dtypeText returns the text of the dtype that is parsed as t.
func (o *output) dtypeText(t dtype.Type) (string, error) {
	switch {
	case t.Kind == dtype.Char:
		return o.s.char, nil
	case o.s.char == "<U1" && t.Kind == dtype.Unicode && t.Size == 4:
		return "", ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "elements of type %s would be read as char in this layout", t)
	case o.s.pure && t.Kind == dtype.Bytes && t.Size == 1:
		return "|S1", nil
	}
	return t.String(), nil
}

// xarrayNames returns the value of _ARRAY_DIMENSIONS; ok is false if there is no value.
func (a *Array) xarrayNames(s *spelling) (names []string, ok bool) {
	switch {
	case a.Scalar && s.scalarDim:
		return []string{scalarDim}, true
	case a.rank() == 0:
		return nil, true
	case a.DimNames != nil:
		return a.DimNames, true
	case a.DimRefs == nil:
		return nil, false
	}
	for _, ref := range a.DimRefs {
		names = append(names, ref[strings.LastIndexByte(ref, '/')+1:])
	}
	return names, true
}

// arrayBlock writes NCZarr's block of an array: the dimension references and, in Zarr v2,
// scalar and storage. In an array of Zarr v3 that is new or gets another data type it
// writes type_alias if the type needs an alias.
func (o *output) arrayBlock(a *Array) {
	s := o.s
	w := o.open(s.arrayDoc, s.arrayName)
	if a.Scalar || a.DimRefs != nil {
		w.Key(s.refs).Strings(a.DimRefs)
	}
	switch alias := aliasOf(a.DType); {
	case s.v3 && alias != "" && (o.old == nil || o.retypesChar(a) && !o.oldAlias()):
		w.Key("type_alias").String(alias)
	case !s.v3:
		o.storage(w, a)
	}
	o.keepUnknownIn(w, arrayBlock)
	done(w, s.arrayName)
}

// oldAlias reports whether the replaced document has a type_alias, which is kept.
func (o *output) oldAlias() bool {
	v, _, _ := o.old.block(arrayBlock) // an invalid block is not kept
	return v.Get("type_alias") != ""
}

func (o *output) storage(w *jsontext.Writer, a *Array) {
	storage := a.Storage
	if storage == "" {
		storage = "chunked"
	}
	if a.Scalar {
		if storage = o.s.scalarWord; o.s.scalarFlag {
			w.Key("scalar").Int(1)
		}
	}
	w.Key("storage").String(storage)
}
