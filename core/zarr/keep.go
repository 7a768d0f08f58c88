package zarr

import (
	"encoding/json"
	"slices"

	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// ownMembers are the members of a block, under any name that any release gave
// them. What else stands in a block is somebody else's, and kept.
var ownMembers = [numBlocks][]string{
	superBlock: {"version", "nczarr_version", "zarr_format"},
	groupBlock: {"dimensions", "dims", "arrays", "vars", "groups"},
	arrayBlock: {"dimension_references", "dimrefs", "storage", "scalar"},
	attrBlock:  {"types"},
}

// docMembers are the members of the documents of Zarr v2.
var docMembers = map[string][]string{
	GroupDoc: {"zarr_format"},
	ArrayDoc: {"zarr_format", "shape", "chunks", "dtype", "fill_value", "order", "compressor", "filters", "dimension_separator"},
}

// keep carries over, from the documents that are being replaced, what this
// package did not read and therefore cannot write: unknown members of .zgroup
// and .zarray, and _ARRAY_DIMENSIONS where none is written. Unknown members of
// the blocks are carried over where the blocks are written. Documents of
// attributes that would otherwise stay, with attributes that are gone, become
// empty.
func (o *output) keep(names bool) {
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
			if !slices.Contains(docMembers[name], m.Key) && !isPlace(m.Key) {
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

// keepIn carries over the unknown members of a block that is being written.
func (o *output) keepIn(w *jsontext.Writer, b block) {
	if o.old == nil {
		return
	}
	v, _, err := o.old.block(b)
	if err != nil || v == "" {
		return
	}
	for _, m := range jsontext.Members(nil, v) {
		if !slices.Contains(ownMembers[b], m.Key) {
			o.member(w, m)
		}
	}
}

// member writes a member as it stands if it is strict JSON, else made so.
func (o *output) member(w *jsontext.Writer, m jsontext.Member) {
	if w.Key(m.Key); json.Valid([]byte(m.Val)) {
		w.Raw(m.Val)
		return
	}
	w.Value(m.Val)
}
