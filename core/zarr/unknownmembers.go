package zarr

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ownMembers are the members of each block, under all names that releases have used. All
// other members of a block are foreign and are kept.
var ownMembers = [numBlocks][]string{
	superBlock: {"version", "nczarr_version", "zarr_format"},
	groupBlock: {"dimensions", "dims", "arrays", "vars", "groups"},
	arrayBlock: {"dimension_references", "dimrefs", "storage", "scalar"},
	attrBlock:  {"types"},
}

// ownMembersV3 are the members of each block in Zarr v3. An array keeps its type_alias,
// because its data type cannot change.
var ownMembersV3 = [numBlocks][]string{
	superBlock: {"version", "format"},
	groupBlock: {"dimensions", "arrays", "subgroups"},
	arrayBlock: {"dimension_references"},
	attrBlock:  {"attribute_types"},
}

// docMembers are the members that Zarr v2 defines for each document.
var docMembers = map[string][]string{
	GroupDoc: {"zarr_format"},
	ArrayDoc: {"zarr_format", "shape", "chunks", "dtype", "fill_value", "order", "compressor", "filters", "dimension_separator"},
}

// keepUnknown copies unknown members from the replaced documents: the members of
// .zgroup and .zarray, and _ARRAY_DIMENSIONS if names is set. The unknown members of
// the blocks are copied where the blocks are written; see keepUnknownIn. An old
// attributes document that no longer has attributes becomes an empty object, so that
// its old content does not survive.
func (o *output) keepUnknown(names bool) {
	old := o.old
	if old == nil {
		return
	}
	for _, name := range []string{GroupDoc, ArrayDoc} {
		doc := old.doc(name)
		if _, writing := o.docs[name]; doc == nil || !writing {
			continue
		}
		for _, m := range doc.Members {
			if !slices.Contains(docMembers[name], m.Key) && !isPlace(m.Key, false) {
				o.member(o.docs[name], m)
			}
		}
	}
	attrs, _ := old.attrsDoc()
	if dims := attrs.get(xarrayDims); dims != "" && names {
		o.member(o.doc(AttrsDoc), jsontext.Member{Key: xarrayDims, Val: dims})
	}
	for _, name := range append([]string{".nczattrs", ".nczattr"}, attrsDocs...) {
		if old.doc(name) != nil {
			o.doc(name)
		}
	}
}

// keepUnknownIn copies the unknown members of a block that is being written.
func (o *output) keepUnknownIn(w *jsontext.Writer, b block) {
	if o.old == nil {
		return
	}
	v, _, err := o.old.block(b)
	if err != nil || v == "" {
		return
	}
	own := ownMembers[b]
	if o.s.v3 {
		own = ownMembersV3[b]
	}
	for _, m := range jsontext.Members(nil, v) {
		if !slices.Contains(own, m.Key) {
			o.member(w, m)
		}
	}
}

// UnknownMembers returns the names of the members of .zgroup, .zarray and zarr.json that
// neither Zarr nor NCZarr defines. It ignores documents that are not JSON.
func (d Docs) UnknownMembers() (names []string) {
	var doc jsontext.Document
	for _, name := range NodeDocNames() {
		own := docMembers[name]
		if text, ok := d[name]; !ok || doc.Parse(text) != nil {
			continue
		} else if name == V3Doc {
			own = v3Members[doc.Get("node_type").Text()]
		}
		for _, m := range doc.Members {
			if !slices.Contains(own, m.Key) && !isPlace(m.Key, false) {
				names = append(names, m.Key)
			}
		}
	}
	return names
}

// WithoutNCZarr returns the documents without the NCZarr metadata in the attributes of a
// zarr.json. Other documents are unchanged, because their writers omit such metadata.
//
// It fails with ErrNotZarr for a zarr.json that is not JSON.
func (d Docs) WithoutNCZarr() (Docs, error) {
	if !d.HasNCZarrMembers() || d[V3Doc] == nil {
		return d, nil
	}
	var doc jsontext.Document
	if err := doc.Parse(d[V3Doc]); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrNotZarr, "parse", "/"+V3Doc, "not JSON: %w", err)
	}
	w := &jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	for _, m := range doc.Members {
		w.Key(m.Key)
		if m.Key != "attributes" || m.Val.Kind() != jsontext.Object {
			w.ValueKeepNaN(m.Val)
			continue
		}
		w.Open('{')
		for _, a := range jsontext.Members(nil, m.Val) {
			if a.Key == xarrayDims || !reserved(a.Key, true) {
				w.Key(a.Key).ValueKeepNaN(a.Val)
			}
		}
		w.Close()
	}
	w.Close()
	out := maps.Clone(d)
	out[V3Doc] = w.Bytes()
	return out, nil
}

// member writes a member unchanged if it is strict JSON, and converts it to strict JSON
// otherwise.
func (o *output) member(w *jsontext.Writer, m jsontext.Member) {
	if w.Key(m.Key); json.Valid([]byte(m.Val)) {
		w.Raw(m.Val)
		return
	}
	w.Value(m.Val)
}
