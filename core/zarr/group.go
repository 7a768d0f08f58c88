package zarr

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// ParseGroup reads the documents of the group at path ("/" is the root) of a dataset
// in the layout of. Any layout is read; in pure Zarr what only NCZarr has, dimensions
// and lists, is left out. Documents that are not there are taken as empty. The documents must not change any more: texts are parts of them.
//
// Names in the lists of the group block that can be no path segment go to
// Group.NoNames, as do dimensions without a length; names that come twice, and dimensions of such names, are left
// out with a warning.
//
// Errors, always with the key of the document: ErrNotZarr for text that is
// no JSON object, ErrMetadata for members that make no sense, ErrUnsupported
// for unknown versions and extensions.
func ParseGroup(path string, docs Docs, of Layout) (*Group, error) {
	n, err := loadNode(path, docs, of == LayoutV3)
	if err != nil {
		return nil, err
	}
	g := &Group{}
	if n.v3 {
		return n.groupV3(g)
	}
	super, p, err := n.block(superBlock)
	if err != nil {
		return nil, err
	}
	if super != "" {
		g.Layout = p.layout
		if g.Superblock, err = superVersion(n.key(p.doc), super); err != nil {
			return nil, err
		}
	}
	blk, p, err := n.block(groupBlock)
	if err != nil {
		return nil, err
	}
	if blk != "" {
		g.Layout = p.layout
		if err := n.groupBlock(g, blk, p.doc); err != nil {
			return nil, err
		}
	}
	if g.Attrs, err = n.groupAttrs(g); err != nil {
		return nil, err
	}
	if _, ok := docs[GroupDoc]; !ok {
		n.warnings = append(n.warnings, "no .zgroup: readers of plain Zarr do not see this group; whoever wrote it may not have finished")
	}
	if !of.NCZarr() {
		g.Listed, g.Dims = false, nil
	}
	g.Warnings = n.warnings
	return g, nil
}

// groupV3 reads a group of Zarr v3.
func (n *node) groupV3(g *Group) (*Group, error) {
	if n.doc(V3Doc).get("node_type").Text() != "group" {
		return nil, ncerr.Errorf(ncerr.ErrNoObject, "parse", n.key(V3Doc), "it is an array, not a group")
	}
	r := attrReader{n: n}
	r.attrs, r.doc = n.attrsDoc()
	g.Layout, g.Attrs, g.Warnings = LayoutV3, r.all(), n.warnings
	return g, nil
}

// groupBlock reads dimensions, arrays and groups, under either name. A block
// without both lists of children does not say what there is.
func (n *node) groupBlock(g *Group, v jsontext.Value, doc string) (err error) {
	if g.Dims, err = n.dims(g, v, doc); err != nil {
		return err
	}
	list, name := either(v, "arrays", "vars")
	if g.Arrays, err = n.names(g, list, doc, name); err != nil {
		return err
	}
	subs := v.Get("groups")
	if g.Groups, err = n.names(g, subs, doc, "groups"); err != nil {
		return err
	}
	if g.Listed = listed(list) && listed(subs); !g.Listed {
		n.warn("%s: the list of arrays or of groups is missing, the keys of the store tell what there is", n.key(doc))
	}
	return nil
}

// listed reports whether a list is there.
func listed(v jsontext.Value) bool {
	return v != "" && v.Kind() != jsontext.Null
}

// dims reads {"x": 3, "t": {"size": 2, "unlimited": 1}}. A dimension without a
// length is left out, and told in g.
func (n *node) dims(g *Group, v jsontext.Value, doc string) ([]Dim, error) {
	obj, name := either(v, "dimensions", "dims")
	if obj == "" || obj.Kind() == jsontext.Null {
		return nil, nil
	}
	if obj.Kind() != jsontext.Object {
		return nil, n.bad(doc, name, "want an object, found %s", clip(obj))
	}
	var dims []Dim
	for _, m := range jsontext.Members(nil, obj) {
		d := Dim{Name: m.Key}
		size := m.Val
		if size.Kind() == jsontext.Object {
			size = m.Val.Get("size")
			d.Unlimited = truth(m.Val.Get("unlimited"))
		}
		var ok bool
		if d.Len, ok = size.Int64(); !ok || d.Len < 0 {
			g.NoNames = append(g.NoNames, n.bad(doc, name, "dimension %q: want a length from 0 to %d, found %s", m.Key, int64(math.MaxInt64), clip(m.Val)))
			g.DimsLost = true
			continue
		}
		if !goodName(d.Name) {
			n.warn("%s: %s: dimension left out, %q is no name", n.key(doc), name, d.Name)
			continue
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// truth reads a flag: true, or a number other than 0, or a string of either.
func truth(v jsontext.Value) bool {
	switch v.Text() {
	case "", "0", "false", "null":
		return false
	}
	return v.Kind() != jsontext.Object && v.Kind() != jsontext.Array
}

// names reads a list of names of children.
func (n *node) names(g *Group, v jsontext.Value, doc, member string) ([]string, error) {
	if v == "" || v.Kind() == jsontext.Null {
		return nil, nil
	}
	list, ok := texts(v)
	if !ok {
		return nil, n.bad(doc, member, "want an array of names, found %s", clip(v))
	}
	seen := make(map[string]bool, len(list))
	var out []string
	for _, name := range list {
		if !goodName(name) {
			g.NoNames = append(g.NoNames, n.bad(doc, member, "%q is no name", clip(name)))
			continue
		}
		if seen[name] {
			n.warn("%s: %s: %q comes twice", n.key(doc), member, name)
			continue
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, nil
}

// groupAttrs reads the attributes; _NCProperties goes to its own field.
func (n *node) groupAttrs(g *Group) ([]Attr, error) {
	r := attrReader{n: n}
	if err := r.load(); err != nil {
		return nil, err
	}
	if r.place.layout != LayoutPure && g.Layout == LayoutPure {
		g.Layout = r.place.layout
	}
	attrs := r.all()
	for i, a := range attrs {
		text, ok := a.Value.(string)
		if list, is := a.Value.([]string); is && len(list) == 1 { // of the type string
			text, ok = list[0], true
		}
		if ok && a.Name == ncProperties {
			g.NCProperties = text
			return append(attrs[:i:i], attrs[i+1:]...), nil
		}
	}
	return attrs, nil
}
