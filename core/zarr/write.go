package zarr

import (
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// WriteOptions say how documents are written.
type WriteOptions struct {
	// Layout is the layout of the dataset, whatever the model's own says.
	Layout Layout
	// NoXarray leaves out _ARRAY_DIMENSIONS.
	NoXarray bool
	// IsRoot says that the node is the root group, or an array in it.
	IsRoot bool
	// Old are the documents that are being replaced, nil for a new node. What
	// stands in them and is neither Zarr's nor NCZarr's is kept: unknown
	// members of .zgroup, .zarray and of NCZarr's blocks, and, where none is
	// written, _ARRAY_DIMENSIONS.
	Old Docs
}

// spelling is all that writing knows about a layout.
type spelling struct {
	style                                         jsontext.Style
	pure                                          bool
	superDoc, groupDoc, arrayDoc, attrDoc         string // document of each block
	superName, groupName, arrayName, attrName     string // member, empty: the document itself
	dims, arrays, refs                            string // names inside the blocks
	version                                       string // of the superblock
	char                                          string // dtype of char
	scalarWord                                    string // storage of a scalar
	scalarFlag, scalarDim                         bool   // "scalar": 1; ["_scalar_"]
	ownTypes, numericTypes                        bool   // types of the blocks themselves; numbers for types
	embedArrays                                   bool   // char text may become an array, else objects only
	alwaysAttrs, rootXarray, emptyAttrs, sizeDims bool   // see spellings
}

// spellings has one row a layout. alwaysAttrs: .zattrs is there even when it is
// empty (libnetcdf 4.10 dies of a group without it); rootXarray: dimension names only for arrays in the root group;
// emptyAttrs: an attribute block without types is {}; sizeDims: unlimited
// dimensions are told.
//
// Source: the documents that netCDF-C 4.8.0 to 4.10 write.
var spellings = [...]spelling{
	LayoutPure: {
		style: jsontext.Spaced, pure: true, char: "|S1", embedArrays: true, alwaysAttrs: true,
	},
	LayoutNewest: {
		style:    jsontext.Spaced,
		superDoc: docAttrs, groupDoc: docAttrs, arrayDoc: docAttrs, attrDoc: docAttrs,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dimensions", arrays: "arrays", refs: "dimension_references", version: "2.0.0", char: ">S1",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, ownTypes: true, embedArrays: true, alwaysAttrs: true, sizeDims: true,
	},
	LayoutLower: {
		style:    jsontext.Spaced,
		superDoc: docGroup, groupDoc: docGroup, arrayDoc: docArray, attrDoc: docAttrs,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dims", arrays: "vars", refs: "dimrefs", version: "2.0.0", char: ">S1",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, embedArrays: true, alwaysAttrs: true,
	},
	LayoutUpper: {
		style:    jsontext.Spaced,
		superDoc: docGroup, groupDoc: docGroup, arrayDoc: docArray, attrDoc: docAttrs,
		superName: "_NCZARR_SUPERBLOCK", groupName: "_NCZARR_GROUP", arrayName: "_NCZARR_ARRAY", attrName: "_NCZARR_ATTR",
		dims: "dims", arrays: "vars", refs: "dimrefs", version: "2.0.0", char: "<U1",
		scalarWord: "scalar", rootXarray: true, emptyAttrs: true,
	},
	LayoutV1: {
		style:    jsontext.Tight,
		superDoc: ".nczarr", groupDoc: ".nczgroup", arrayDoc: ".nczarray", attrDoc: ".nczattrs",
		dims: "dims", arrays: "vars", refs: "dimension_references", version: "1.0.0", char: "<U1",
		scalarWord: "scalar", numericTypes: true, rootXarray: true,
	},
}

// NCProperties gives the provenance text for the root group of a dataset that
// this program writes, version being its own.
func NCProperties(version string) string { return "version=2,nczarr=2.0.0,go-nczarr=" + version }

// output collects the documents of one node.
type output struct {
	s    *spelling
	docs map[string]*jsontext.Writer
	old  *node // what is being replaced, nil for a new node
}

func newOutput(opts WriteOptions) (*output, error) {
	if int(opts.Layout) >= len(spellings) {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "write metadata", "", "layout %d", opts.Layout)
	}
	o := &output{s: &spellings[opts.Layout], docs: map[string]*jsontext.Writer{}}
	if opts.Old == nil {
		return o, nil
	}
	var err error
	o.old, err = loadNode("/", opts.Old)
	return o, err
}

// doc gives the writer of a document, opened on first use.
func (o *output) doc(name string) *jsontext.Writer {
	w, ok := o.docs[name]
	if !ok {
		w = &jsontext.Writer{Style: o.s.style}
		w.Open('{')
		o.docs[name] = w
	}
	return w
}

// open starts a block: a member of a document, or a document of its own.
func (o *output) open(doc, member string) *jsontext.Writer {
	w := o.doc(doc)
	if member != "" {
		w.Key(member).Open('{')
	}
	return w
}

// done ends a block that open started.
func done(w *jsontext.Writer, member string) {
	if member != "" {
		w.Close()
	}
}

// finish ends the documents; names says that the old _ARRAY_DIMENSIONS stay.
func (o *output) finish(names bool) Docs {
	o.keep(names)
	docs := make(Docs, len(o.docs))
	for name, w := range o.docs {
		w.Close()
		docs[name] = w.Bytes()
	}
	return docs
}

// Docs writes the group's documents: .zgroup and, as the layout has it,
// .zattrs and NCZarr's own. NCProperties is written for the root only, when it
// is set. Unlimited dimensions are told apart in LayoutNewest only.
//
// Errors: ErrBadName for names and attributes that cannot be written,
// ErrBadType for an attribute whose value is not of its type, ErrInvalid for a
// negative length.
func (g *Group) Docs(opts WriteOptions) (Docs, error) {
	o, err := newOutput(opts)
	if err != nil {
		return nil, err
	}
	if err := g.check(o.s); err != nil {
		return nil, err
	}
	s := o.s
	o.doc(docGroup).Key("zarr_format").Int(2)
	types := o.attrs(g.Attrs)
	if g.NCProperties != "" && opts.IsRoot {
		p := Attr{Name: ncProperties, Type: dtype.NCChar, Value: g.NCProperties}
		o.doc(docAttrs).Key(ncProperties).String(g.NCProperties)
		types = append(types, [2]string{p.Name, s.typeText(p)})
	}
	if s.alwaysAttrs {
		o.doc(docAttrs)
	}
	if s.pure {
		return o.finish(false), nil
	}
	if s.superDoc != s.groupDoc || s.superDoc == docGroup {
		o.super(opts.IsRoot)
		o.group(g)
	} else {
		o.group(g)
		o.super(opts.IsRoot)
	}
	own := []string{s.groupName}
	if opts.IsRoot {
		own = append(own, s.superName)
	}
	o.types(types, own)
	return o.finish(false), nil
}

func (g *Group) check(s *spelling) error {
	for _, d := range g.Dims {
		if !goodName(d.Name) {
			return ncerr.Errorf(ncerr.ErrBadName, "write dimension", d.Name, "no legal name")
		}
		if d.Len < 0 {
			return invalid("dimension %q has length %d", d.Name, d.Len)
		}
	}
	for _, name := range slices.Concat(g.Arrays, g.Groups) {
		if !goodName(name) {
			return ncerr.Errorf(ncerr.ErrBadName, "write group", name, "no legal name")
		}
	}
	return checkAttrs(g.Attrs, s)
}

func checkAttrs(attrs []Attr, s *spelling) error {
	seen := make(map[string]bool, len(attrs))
	for _, a := range attrs {
		if err := checkAttr(a, s); err != nil {
			return err
		}
		if seen[a.Name] {
			return ncerr.New(ncerr.ErrNameInUse, "write attribute", a.Name, nil)
		}
		seen[a.Name] = true
	}
	return nil
}

// super writes the superblock, which only the root has.
func (o *output) super(root bool) {
	if !root {
		return
	}
	w := o.open(o.s.superDoc, o.s.superName)
	if o.s.superName == "" {
		w.Key("zarr_format").Int(2)
		w.Key("nczarr_version").String(o.s.version)
	} else {
		w.Key("version").String(o.s.version)
	}
	o.keepIn(w, superBlock)
	done(w, o.s.superName)
}

// group writes dimensions, arrays and groups.
func (o *output) group(g *Group) {
	w := o.open(o.s.groupDoc, o.s.groupName)
	w.Key(o.s.dims).Open('{')
	for _, d := range g.Dims {
		w.Key(d.Name)
		if d.Unlimited && o.s.sizeDims {
			w.Open('{')
			w.Key("size").Int(d.Len)
			w.Key("unlimited").Int(1)
			w.Close()
			continue
		}
		w.Int(d.Len)
	}
	w.Close()
	w.Key(o.s.arrays).Strings(g.Arrays)
	w.Key("groups").Strings(g.Groups)
	o.keepIn(w, groupBlock)
	done(w, o.s.groupName)
}

// attrs writes the user's attributes and gives their types.
func (o *output) attrs(list []Attr) (types [][2]string) {
	for _, a := range list {
		w := o.doc(docAttrs)
		w.Key(a.Name)
		writeAttr(w, a, o.s)
		types = append(types, [2]string{a.Name, o.s.typeText(a)})
	}
	return types
}

// types writes the attribute types, and those of NCZarr's own blocks.
func (o *output) types(types [][2]string, own []string) {
	s := o.s
	if s.ownTypes {
		for _, name := range append(own, s.attrName) {
			types = append(types, [2]string{name, "|J0"})
		}
	}
	if len(types) == 0 {
		if _, ok := o.docs[docAttrs]; ok && s.emptyAttrs {
			done(o.open(s.attrDoc, s.attrName), s.attrName)
		}
		return
	}
	w := o.open(s.attrDoc, s.attrName)
	w.Key("types").Open('{')
	for _, t := range types {
		w.Key(t[0]).String(t[1])
	}
	w.Close()
	o.keepIn(w, attrBlock)
	done(w, s.attrName)
}

// Docs writes the array's documents: .zarray and, as the layout has it,
// .zattrs and NCZarr's own. A scalar gets shape [] in pure Zarr and [1] in
// NCZarr, whatever the model has. Without DimNames the last segments of
// DimRefs are written as _ARRAY_DIMENSIONS; without both there are none.
//
// The codec chain becomes filters and compressor: the last codec is the
// compressor unless it is one that only prepares or checks data (shuffle,
// delta, checksums and so on).
//
// Errors: ErrInvalid for a model that contradicts itself, ErrUnsupported for
// what v2 cannot say (a transpose that is no reversal, a char in a layout of
// wide chars), ErrBadName and ErrBadType as Group.Docs.
func (a *Array) Docs(opts WriteOptions) (Docs, error) {
	o, err := newOutput(opts)
	if err != nil {
		return nil, err
	}
	if err := a.check(o.s); err != nil {
		return nil, err
	}
	if err := o.array(a); err != nil {
		return nil, err
	}
	s := o.s
	types := o.attrs(a.Attrs)
	named := false
	if !opts.NoXarray && (!s.rootXarray || opts.IsRoot) {
		var names []string
		if names, named = a.xarrayNames(s); named {
			o.doc(docAttrs).Key(xarrayDims).Strings(names)
		}
	}
	if s.alwaysAttrs {
		o.doc(docAttrs)
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
		return invalid("chunk shape %v for shape %v", a.Chunks, a.Shape)
	case a.Scalar && !a.isOne():
		return invalid("scalar of shape %v", a.Shape)
	case a.DimNames != nil && len(a.DimNames) != a.rank(), a.DimRefs != nil && len(a.DimRefs) != a.rank():
		return invalid("dimension names %q, references %q for %d dimensions", a.DimNames, a.DimRefs, a.rank())
	case a.Transpose != nil && !slices.Equal(a.Transpose, reversed(rank)):
		return ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "storage order %v: v2 knows C and F only", a.Transpose)
	case a.Separator != 0 && a.Separator != '.' && a.Separator != '/':
		return invalid("dimension separator %q", a.Separator)
	case !a.DType.Fixed() && a.DType.Kind != dtype.String && a.DType.Kind != dtype.VlenBytes:
		return invalid("element type %s", a.DType)
	}
	for i := range a.Shape {
		if a.Shape[i] < 0 || a.Chunks[i] < 1 {
			return invalid("chunk shape %v for shape %v", a.Chunks, a.Shape)
		}
	}
	if !allRefs(a.DimRefs) {
		return ncerr.Errorf(ncerr.ErrBadName, "write metadata", strings.Join(a.DimRefs, " "), "no dimension names")
	}
	return checkAttrs(a.Attrs, s)
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
	w := o.doc(docArray)
	w.Key("zarr_format").Int(2)
	w.Key("shape").Ints(shape)
	name, err := o.dtypeText(a.DType)
	if err != nil {
		return err
	}
	w.Key("dtype").String(name)
	w.Key("chunks").Ints(chunks)
	w.Key("fill_value")
	if err := writeFill(w, a, o.s.pure); err != nil {
		return err
	}
	w.Key("order").String(map[bool]string{true: "C", false: "F"}[len(a.Transpose) < 2])
	filters, compressor := splitCodecs(a.Codecs)
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
	if a.Separator == '/' {
		w.Key("dimension_separator").String("/")
	}
	return nil
}

// dtypeText spells the element type so that reading gives the same one.
func (o *output) dtypeText(t dtype.Type) (string, error) {
	switch {
	case t.Kind == dtype.Char:
		return o.s.char, nil
	case o.s.char == "<U1" && t.Kind == dtype.Unicode && t.Size == 4:
		return "", ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "one-character %s means char in this layout", t)
	case o.s.pure && t.Kind == dtype.Bytes && t.Size == 1:
		return "|S1", nil
	}
	return t.String(), nil
}

// xarrayNames gives what _ARRAY_DIMENSIONS holds.
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

// arrayBlock writes dimension references, scalar and storage.
func (o *output) arrayBlock(a *Array) {
	s := o.s
	w := o.open(s.arrayDoc, s.arrayName)
	if a.Scalar || a.DimRefs != nil {
		w.Key(s.refs).Strings(a.DimRefs)
	}
	storage := a.Storage
	if storage == "" {
		storage = "chunked"
	}
	if a.Scalar {
		if storage = s.scalarWord; s.scalarFlag {
			w.Key("scalar").Int(1)
		}
	}
	w.Key("storage").String(storage)
	o.keepIn(w, arrayBlock)
	done(w, s.arrayName)
}
