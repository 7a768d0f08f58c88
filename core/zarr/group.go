package zarr

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ParseGroup parses the documents of the group at path ("/" is the root). layout is the
// layout of the dataset. ParseGroup reads the NCZarr metadata of every layout of that Zarr
// version. If layout is pure, it omits dimensions and lists, which only NCZarr has, and on
// Zarr v3 it ignores all NCZarr metadata. Missing documents are treated as empty. The
// result shares memory with docs, which must not be modified afterwards.
//
// Names in the lists of the group block that are not valid path segments, and dimensions
// without a valid length, are reported in Group.Invalid. Duplicate names and dimensions
// with an invalid name are ignored with a warning.
//
// Every error contains the key of the document. ParseGroup fails with ErrNotZarr for a
// document that is not a JSON object, with ErrMetadata for malformed members, and with
// ErrUnsupported for unknown versions and extensions.
func ParseGroup(path string, docs Docs, layout Layout) (*Group, error) {
	n, err := loadNode(path, docs, layout.row().v3)
	if err != nil {
		return nil, err
	}
	g := &Group{Layout: FormatLayout(layout.Format(), false)}
	if n.v3 && n.doc(V3Doc).get("node_type").Text() != "group" {
		return nil, ncerr.Errorf(ncerr.ErrNoObject, "parse", n.key(V3Doc), "expected a group, found an array")
	}
	nczarr := layout.NCZarr() || !n.v3
	if nczarr {
		if err := n.groupBlocks(g); err != nil {
			return nil, err
		}
	}
	if g.Attrs, err = n.groupAttrs(g, nczarr); err != nil {
		return nil, err
	}
	if _, ok := docs[GroupDoc]; !ok && !n.v3 {
		n.warnings = append(n.warnings, "no .zgroup: readers of plain Zarr do not see this group; the write may be incomplete")
	}
	if !layout.NCZarr() {
		g.Listed, g.Dims = false, nil
	}
	g.Warnings = n.warnings
	return g, nil
}

// groupBlocks parses the superblock and the group block, if they exist.
func (n *node) groupBlocks(g *Group) error {
	super, p, err := n.block(superBlock)
	if err != nil {
		return err
	}
	if super != "" {
		g.Layout = p.layout
		if g.Superblock, err = n.superVersion(p, super); err != nil {
			return err
		}
	}
	blk, p, err := n.block(groupBlock)
	if err != nil || blk == "" {
		return err
	}
	g.Layout = p.layout
	return n.groupBlock(g, blk, p)
}

// groupBlock parses dimensions, arrays and groups, under their newer or older names. It
// sets g.Listed only if both lists of children exist.
func (n *node) groupBlock(g *Group, v jsontext.Value, p place) (err error) {
	doc, groups := p.doc, p.layout.row().groups
	if g.Dims, err = n.dims(g, v, doc); err != nil {
		return err
	}
	list, name := either(v, "arrays", "vars")
	if g.Arrays, err = n.names(g, list, doc, name); err != nil {
		return err
	}
	subs := v.Get(groups)
	if g.Groups, err = n.names(g, subs, doc, groups); err != nil {
		return err
	}
	if g.Listed = listed(list) && listed(subs); !g.Listed {
		n.warn("%s: the list of arrays or groups is missing, so the store is listed instead", n.key(doc))
	}
	return nil
}

// listed reports whether v is a list rather than missing or null.
func listed(v jsontext.Value) bool {
	return v != "" && v.Kind() != jsontext.Null
}

// dims parses {"x": 3, "t": {"size": 2, "unlimited": 1}}, or in Zarr v3 a list of objects
// that also have the member name. A dimension without a valid length is omitted and
// reported in g.Invalid.
func (n *node) dims(g *Group, v jsontext.Value, doc string) ([]Dim, error) {
	obj, name := either(v, "dimensions", "dims")
	if obj == "" || obj.Kind() == jsontext.Null {
		return nil, nil
	}
	var members []jsontext.Member
	switch kind := obj.Kind(); {
	case n.v3 && kind == jsontext.Array:
		members = named(obj)
	case n.v3:
		return nil, n.bad(doc, name, "expected an array of objects, found %s", clip(obj))
	case kind != jsontext.Object:
		return nil, n.bad(doc, name, "expected an object, found %s", clip(obj))
	default:
		members = jsontext.Members(nil, obj)
	}
	var dims []Dim
	for _, m := range members {
		d := Dim{Name: m.Key}
		size := m.Val
		if size.Kind() == jsontext.Object {
			size = m.Val.Get("size")
			d.Unlimited = isTrue(m.Val.Get("unlimited"))
		}
		var ok bool
		if n.v3 && !validName(d.Name) {
			g.Invalid = append(g.Invalid, n.bad(doc, name, "expected an object with the name of a dimension, found %s", clip(m.Val)))
			g.DimsIncomplete = true
			continue
		}
		if d.Len, ok = size.Int64(); !ok || d.Len < 0 {
			g.Invalid = append(g.Invalid, n.bad(doc, name, "dimension %q: expected a length from 0 to %d, found %s", m.Key, int64(math.MaxInt64), clip(m.Val)))
			g.DimsIncomplete = true
			continue
		}
		if !validName(d.Name) {
			n.warn("%s: %s: ignored dimension with invalid name %q", n.key(doc), name, d.Name)
			continue
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// named returns the elements of an array by the value of their member name. An element
// that is not an object with such a member has the name "".
func named(list jsontext.Value) []jsontext.Member {
	var out []jsontext.Member
	_ = list.Elems(func(_ int, e jsontext.Value) error {
		m := jsontext.Member{Val: e}
		if name := e.Get("name"); name.Kind() == jsontext.String {
			m.Key = name.Text()
		}
		out = append(out, m)
		return nil
	})
	return out
}

// isTrue reports whether a flag is set. A set flag is true, a number other than 0, or
// either of these as a string.
func isTrue(v jsontext.Value) bool {
	switch v.Text() {
	case "", "0", "false", "null":
		return false
	}
	return v.Kind() != jsontext.Object && v.Kind() != jsontext.Array
}

// names parses a list of child names.
func (n *node) names(g *Group, v jsontext.Value, doc, member string) ([]string, error) {
	if v == "" || v.Kind() == jsontext.Null {
		return nil, nil
	}
	list, ok := stringsIn(v)
	if !ok {
		return nil, n.bad(doc, member, "expected an array of names, found %s", clip(v))
	}
	seen := make(map[string]bool, len(list))
	var out []string
	for _, name := range list {
		if !validName(name) {
			g.Invalid = append(g.Invalid, n.bad(doc, member, "invalid name %q", clip(name)))
			continue
		}
		if seen[name] {
			n.warn("%s: %s: duplicate name %q", n.key(doc), member, name)
			continue
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, nil
}

// groupAttrs parses the attributes. It moves _NCProperties to g.NCProperties.
// If nczarr is set, the attributes have the types that NCZarr records for them.
func (n *node) groupAttrs(g *Group, nczarr bool) ([]Attr, error) {
	r := attrReader{n: n}
	if err := r.load(nczarr); err != nil {
		return nil, err
	}
	if r.place.layout != LayoutPure && g.Layout == LayoutPure {
		g.Layout = r.place.layout
	}
	attrs := r.all()
	for i, a := range attrs {
		text, ok := a.Value.(string)
		if list, is := a.Value.([]string); is && len(list) == 1 { // an attribute of type string
			text, ok = list[0], true
		}
		if n.v3 { // in other groups _NCProperties is an ordinary attribute
			ok = ok && n.path == "/" && a.JSON[0] == '"'
		}
		if ok && a.Name == ncProperties {
			g.NCProperties = text
			return append(attrs[:i:i], attrs[i+1:]...), nil
		}
	}
	return attrs, nil
}
