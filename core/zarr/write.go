package zarr

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// WriteOptions controls how documents are written.
type WriteOptions struct {
	// Layout is the layout to write. The Layout field of the Group or Array is ignored.
	Layout Layout
	// NoXarray omits _ARRAY_DIMENSIONS.
	NoXarray bool
	// IsRoot means that the node is the root group or an array in it.
	IsRoot bool
	// Old holds the documents that are being replaced; nil for a new node. Writers keep
	// the members of Old that neither Zarr nor NCZarr defines: unknown members of
	// .zgroup, .zarray and NCZarr's blocks. They also keep an old _ARRAY_DIMENSIONS that
	// they do not write. A zarr.json keeps everything except its attributes and the shape
	// of its array; nothing else can change.
	Old Docs
}

// NCProperties returns the provenance attribute for the root group of a dataset that this
// program writes. version is the version of the program.
func (l Layout) NCProperties(version string) string {
	return "version=2,nczarr=" + max("2.0.0", l.row().version) + ",go-nczarr=" + version
}

// output collects the documents of one node.
type output struct {
	s    *spelling
	docs map[string]*jsontext.Writer
	old  *node // the node that is replaced; nil for a new node
}

func newOutput(opts WriteOptions) (*output, error) {
	if int(opts.Layout) >= len(spellings) {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "write metadata", "", "unknown layout %d", opts.Layout)
	}
	o := &output{s: &spellings[opts.Layout], docs: map[string]*jsontext.Writer{}}
	if opts.Old == nil {
		return o, nil
	}
	var err error
	o.old, err = loadNode("/", opts.Old, o.s.v3)
	if o.s.v3 && err == nil && o.old.doc(AttrsDoc) != nil {
		o.doc(AttrsDoc) // write the attributes even if all of them were removed
	}
	return o, err
}

// doc returns the writer of a document, and opens it on first use.
func (o *output) doc(name string) *jsontext.Writer {
	w, ok := o.docs[name]
	if !ok {
		w = &jsontext.Writer{Style: o.s.style}
		w.Open('{')
		o.docs[name] = w
	}
	return w
}

// open starts a block, which is a member of a document, or the whole document if member
// is empty.
func (o *output) open(doc, member string) *jsontext.Writer {
	w := o.doc(doc)
	if member != "" {
		w.Key(member).Open('{')
	}
	return w
}

// done ends a block started by open.
func done(w *jsontext.Writer, member string) {
	if member != "" {
		w.Close()
	}
}

// finish ends the documents and returns them. It keeps the old _ARRAY_DIMENSIONS if names
// is set.
func (o *output) finish(names bool) Docs {
	o.keepUnknown(names)
	docs := make(Docs, len(o.docs))
	for name, w := range o.docs {
		w.Close()
		docs[name] = w.Bytes()
	}
	return docs
}

// Docs returns the group's documents: zarr.json, or .zgroup and, depending on the layout,
// .zattrs and NCZarr's own. NCProperties is written only for the root, if not empty. Only
// LayoutNewest and LayoutNCZarr3 record which dimensions are unlimited.
//
// Docs fails with ErrBadName for names and attributes that cannot be written, with
// ErrNameInUse for duplicate attributes, with ErrBadType for an attribute whose value
// does not match its type, and with ErrInvalid for a negative length.
func (g *Group) Docs(opts WriteOptions) (Docs, error) {
	o, err := newOutput(opts)
	if err != nil {
		return nil, err
	}
	if err := g.check(o.s); err != nil {
		return nil, err
	}
	s := o.s
	if !s.v3 {
		o.doc(GroupDoc).Key("zarr_format").Int(2)
	}
	types := o.attrs(g.Attrs, attrReader{})
	if g.NCProperties != "" && opts.IsRoot {
		p := Attr{Name: ncProperties, Type: dtype.NCChar, Value: g.NCProperties}
		o.doc(AttrsDoc).Key(ncProperties).String(g.NCProperties)
		types = append(types, [2]string{p.Name, s.typeText(p)})
	}
	if s.alwaysAttrs {
		o.doc(AttrsDoc)
	}
	if !s.pure {
		o.blocks(g, opts.IsRoot, types)
	}
	if s.v3 {
		return o.docV3(append(nodeV3("group"), o.attrsV3()))
	}
	return o.finish(false), nil
}

// blocks writes the blocks of a group.
func (o *output) blocks(g *Group, root bool, types [][2]string) {
	s := o.s
	if s.superDoc != s.groupDoc || s.superDoc == GroupDoc {
		o.super(root)
		o.group(g)
	} else {
		o.group(g)
		o.super(root)
	}
	own := []string{s.groupName}
	if root {
		own = append(own, s.superName)
	}
	o.types(types, own)
}

func (g *Group) check(s *spelling) error {
	for _, d := range g.Dims {
		if !validName(d.Name) {
			return ncerr.Errorf(ncerr.ErrBadName, "write dimension", d.Name, "the name is empty, has a slash or a control character, or is not UTF-8")
		}
		if d.Len < 0 {
			return invalid("dimension %q has negative length %d", d.Name, d.Len)
		}
	}
	for _, name := range slices.Concat(g.Arrays, g.Groups) {
		if !validName(name) {
			return ncerr.Errorf(ncerr.ErrBadName, "write group", name, "the name is empty, has a slash or a control character, or is not UTF-8")
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

// super writes the superblock if the node is the root.
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
	if o.s.v3 {
		w.Key("format").Int(3)
	}
	o.keepUnknownIn(w, superBlock)
	done(w, o.s.superName)
}

// group writes dimensions, arrays and groups.
func (o *output) group(g *Group) {
	w := o.open(o.s.groupDoc, o.s.groupName)
	if w.Key(o.s.dims); o.s.v3 {
		o.dimsV3(w, g.Dims)
	} else {
		o.dims(w, g.Dims)
	}
	w.Key(o.s.arrays).Strings(g.Arrays)
	w.Key(o.s.groups).Strings(g.Groups)
	o.keepUnknownIn(w, groupBlock)
	done(w, o.s.groupName)
}

func (o *output) dims(w *jsontext.Writer, dims []Dim) {
	w.Open('{')
	for _, d := range dims {
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
}

// attrs writes the user's attributes and returns their names and types. r parses
// attributes of Zarr v3.
func (o *output) attrs(list []Attr, r attrReader) (types [][2]string) {
	if o.s.v3 {
		return o.listV3(list, r)
	}
	for _, a := range list {
		w := o.doc(AttrsDoc)
		w.Key(a.Name)
		writeAttr(w, a, o.s)
		types = append(types, [2]string{a.Name, o.s.typeText(a)})
	}
	return types
}

// types writes the types of the attributes. In layouts with ownTypes it also writes the
// type of the attributes that hold the given blocks.
func (o *output) types(types [][2]string, blocks []string) {
	s := o.s
	if s.ownTypes {
		for _, name := range append(blocks, s.attrName) {
			types = append(types, [2]string{name, s.json})
		}
	}
	if len(types) == 0 {
		if _, ok := o.docs[AttrsDoc]; ok && s.emptyAttrs {
			done(o.open(s.attrDoc, s.attrName), s.attrName)
		}
		return
	}
	w := o.open(s.attrDoc, s.attrName)
	if s.v3 {
		o.typesV3(w, types)
	} else {
		w.Key("types").Open('{')
		for _, t := range types {
			w.Key(t[0]).String(t[1])
		}
		w.Close()
	}
	o.keepUnknownIn(w, attrBlock)
	done(w, s.attrName)
}
