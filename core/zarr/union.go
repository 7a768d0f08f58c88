package zarr

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// Union returns the documents of d with the NCZarr metadata of other added, so that
// readers of both layouts find their metadata. d and other belong to one node and have the
// same Zarr version. Of members and documents that both have, Union returns those of d.
// Documents that are not JSON objects are unchanged.
func (d Docs) Union(other Docs) Docs {
	out := maps.Clone(other)
	maps.Copy(out, d)
	for name, text := range d {
		switch from := other[name]; {
		case from == nil:
		case name == V3Doc:
			out[name] = addPlacesV3(text, from)
		default:
			out[name] = addPlaces(text, from, false)
		}
	}
	return out
}

// addPlacesV3 is like addPlaces for the attributes of a zarr.json.
func addPlacesV3(doc, from []byte) []byte {
	const attributes = "attributes"
	var a, b jsontext.Document
	if a.Parse(doc) != nil || b.Parse(from) != nil {
		return doc
	}
	attrs := addPlaces([]byte(cmp.Or(a.Get(attributes), "{}")), []byte(b.Get(attributes)), true)
	w := &jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	for _, m := range a.Members {
		if m.Key != attributes {
			w.Key(m.Key).ValueKeepNaN(m.Val)
		}
	}
	w.Key(attributes).Raw(jsontext.FromBytes(attrs))
	w.Close()
	return w.Bytes()
}

// addPlaces adds the members of from that hold blocks of NCZarr to doc, unless doc has them.
func addPlaces(doc, from []byte, v3 bool) []byte {
	var a, b jsontext.Document
	if a.Parse(doc) != nil || b.Parse(from) != nil {
		return doc
	}
	var added []jsontext.Member
	for _, m := range b.Members {
		if isPlace(m.Key, v3) && a.Get(m.Key) == "" {
			added = append(added, m)
		}
	}
	if len(added) == 0 {
		return doc
	}
	w := &jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	for _, m := range slices.Concat(a.Members, added) {
		w.Key(m.Key).ValueKeepNaN(m.Val)
	}
	w.Close()
	return w.Bytes()
}

// Retypes reports whether the zarr.json in other describes elements with another data type.
func (d Docs) Retypes(other Docs) bool {
	a, aerr := jsontext.Check(string(d[V3Doc]))
	b, berr := jsontext.Check(string(other[V3Doc]))
	return aerr == nil && berr == nil && !same(a.Get("data_type"), b.Get("data_type"))
}

// OwnDocs returns the names of the documents that readers of the layout fetch and readers
// of other layouts do not.
func (l Layout) OwnDocs() []string {
	if l != LayoutV1 {
		return nil
	}
	names := append(l.NodeDocs(), ".nczarr", ".NCZarr")
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(LayoutNewest.NodeDocs(), name) })
}

// HasOtherForm reports whether d has metadata of an NCZarr layout other than l of the same
// Zarr version: blocks or documents, or a char with another data type. A migration that
// was interrupted leaves such documents.
func (d Docs) HasOtherForm(l Layout) bool {
	s := l.row()
	if s.v3 {
		v, err := jsontext.Check(string(d[V3Doc]))
		alias := v.Get("attributes").Get(s.arrayName).Get("type_alias")
		return err == nil && alias.Text() == aliasChar && v.Get("data_type").Text() != "uint8"
	}
	own := []place{{l, s.superDoc, s.superName}, {l, s.groupDoc, s.groupName}, {l, s.arrayDoc, s.arrayName}, {l, s.attrDoc, s.attrName}}
	for _, list := range places {
		for _, p := range list {
			text, ok := d[p.doc]
			if !ok || p.layout.row().v3 || slices.ContainsFunc(own, func(o place) bool { return o.doc == p.doc && o.member == p.member }) {
				continue
			}
			v, err := jsontext.Check(string(text))
			if p.member == "" && p.layout != l || p.member != "" && err == nil && v.Get(p.member) != "" {
				return true
			}
		}
	}
	v, err := jsontext.Check(string(d[ArrayDoc]))
	return err == nil && !s.pure && v.Get("dtype").Text() == LayoutNewest.row().char && s.char != LayoutNewest.row().char
}
