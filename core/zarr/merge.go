package zarr

import (
	"slices"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Versions holds the versions of one document that two writers have changed. A missing
// version is nil.
type Versions struct {
	// Base is the version from which Ours was made.
	Base, Ours []byte
	// Theirs is the version that another writer has stored in the meantime.
	Theirs []byte
	// Tried holds earlier versions of Ours that may be part of Theirs, because the
	// outcome of storing them is unknown.
	Tried [][]byte
}

// Merge combines the changes of two writers to the document of that name. Members that only
// one writer has changed keep that change. If both have changed them, the shape of an
// array and the lengths of dimensions become the larger of the two, and lists of
// nodes, dimensions and attribute types contain the elements of both. The name of any other
// member that both have changed differently is in conflicts, and merged has the value of
// Theirs. The value and the type of an attribute count as one member if one document has both.
// The members that determine how chunks are stored must not change at all, so they are in
// conflicts if Theirs differs from Base.
//
// merged has no consolidated metadata; see [WithConsolidated]. Merge fails with
// ErrNotZarr if a version is not a JSON object.
func (l Layout) Merge(name string, v Versions) (merged []byte, conflicts []string, err error) {
	m := &merger{style: l.row().style}
	var docs [3]jsontext.Value
	for i, text := range [][]byte{v.Base, v.Ours, v.Theirs} {
		if docs[i], err = mergeable(name, text); err != nil {
			return nil, nil, err
		}
	}
	tried := make([]jsontext.Value, 0, len(v.Tried))
	for _, text := range v.Tried {
		doc, err := mergeable(name, text)
		if err != nil {
			return nil, nil, err
		}
		tried = append(tried, doc)
	}
	kind := mergeKindOf(name, docs[1])
	if kind == mergeArrayDoc && v.Base != nil {
		for _, key := range storedMembers {
			if !equalOrAbsent(docs[0].Get(key), docs[2].Get(key)) {
				m.conflict(key)
			}
		}
	}
	out := m.object(kind, docs[0], tried, docs[1], docs[2])
	return []byte(out), m.conflicts, nil
}

// storedMembers are the members of .zarray and zarr.json that determine how chunks are
// stored. They are the same for all versions of an array.
var storedMembers = []string{
	"zarr_format", "node_type", "dtype", "data_type", "chunks", "chunk_grid", "chunk_key_encoding", "dimension_separator",
	"order", "compressor", "filters", "codecs", "storage_transformers", "fill_value",
}

func mergeable(name string, text []byte) (jsontext.Value, error) {
	if text == nil {
		return "{}", nil
	}
	v, err := jsontext.Check(string(text))
	if err != nil || v.Kind() != jsontext.Object {
		return "", ncerr.Errorf(ncerr.ErrNotZarr, "merge", "/"+name, "expected a JSON object, found %s", clip(text))
	}
	return v, nil
}

// mergeKind determines how a value is merged.
type mergeKind uint8

const (
	mergeWhole     mergeKind = iota // as a whole
	mergeTheirs                     // as a whole; a conflict keeps the other writer's value
	mergeDropped                    // the merged document does not have the member
	mergeDoc                        // the members of a document
	mergeArrayDoc                   // the members of a document that describes an array
	mergeAttrs                      // attributes and, in .zattrs, blocks
	mergeGroup                      // the block of a group
	mergeArray                      // the block of an array
	mergeTypes                      // the block of attribute types
	mergeNamed                      // an object whose members are attributes or attribute types
	mergeDims                       // dimensions: an object, or a list of objects with names
	mergeDim                        // one dimension
	mergeTypesList                  // a list of objects with names
	mergeNames                      // a list of names
	mergeLengths                    // a list of lengths
	mergeLength                     // a length
)

// mergeKindOf returns how a document is merged. ours is one of its versions.
func mergeKindOf(name string, ours jsontext.Value) mergeKind {
	switch {
	case name == ArrayDoc, name == V3Doc && ours.Get("node_type").Text() == "array":
		return mergeArrayDoc
	case slices.Contains(attrsDocs, name):
		return mergeAttrs
	}
	for b, list := range places {
		for _, p := range list {
			if p.doc == name && p.member == "" {
				return blockKind(block(b)) // b is below numBlocks
			}
		}
	}
	return mergeDoc
}

func blockKind(b block) mergeKind {
	return [numBlocks]mergeKind{superBlock: mergeArray, groupBlock: mergeGroup, arrayBlock: mergeArray, attrBlock: mergeTypes}[b]
}

// member returns how a member of an object is merged.
func (k mergeKind) member(key string) mergeKind {
	switch k {
	case mergeDoc, mergeArrayDoc, mergeAttrs:
		for b, list := range places {
			for _, p := range list {
				if p.member == key {
					return blockKind(block(b)) // b is below numBlocks
				}
			}
		}
		switch {
		case key == ncProperties && k == mergeAttrs:
			return mergeTheirs
		case k == mergeAttrs:
		case key == "attributes":
			return mergeAttrs
		case key == "consolidated_metadata":
			return mergeDropped
		case key == "shape" && k == mergeArrayDoc:
			return mergeLengths
		}
	case mergeGroup:
		switch key {
		case "dimensions", "dims":
			return mergeDims
		case "arrays", "vars", "groups", "subgroups":
			return mergeNames
		}
	case mergeTypes:
		switch key {
		case "types":
			return mergeNamed
		case "attribute_types":
			return mergeTypesList
		}
	case mergeDims:
		return mergeDim
	case mergeDim:
		if key == "size" {
			return mergeLength
		}
	}
	return mergeWhole
}

// merger merges one document.
type merger struct {
	style     jsontext.Style
	conflicts []string
	units     map[string]bool // attributes; true if value and type of ours are used, false for theirs
}

func (m *merger) conflict(name string) {
	if !slices.Contains(m.conflicts, name) {
		m.conflicts = append(m.conflicts, name)
	}
}

// value merges one value. An absent value is "". name is used for conflicts.
func (m *merger) value(k mergeKind, name string, base jsontext.Value, tried []jsontext.Value, ours, theirs jsontext.Value) jsontext.Value {
	switch {
	case k == mergeDropped:
		return ""
	case (k == mergeTypes || k == mergeNamed) && m.units != nil && ours.Kind() == jsontext.Object && theirs.Kind() == jsontext.Object:
		return m.object(k, base, tried, ours, theirs) // the types follow the values
	case k == mergeTypesList && m.units != nil && ours.Kind() == jsontext.Array && theirs.Kind() == jsontext.Array:
		if out, ok := m.namedList(k, base, tried, ours, theirs); ok {
			return out
		}
	}
	switch {
	case equalOrAbsent(ours, theirs):
		return theirs
	case equalOrAbsent(theirs, base), k != mergeLengths && k != mergeLength && slices.ContainsFunc(tried, func(t jsontext.Value) bool { return equalOrAbsent(t, theirs) }):
		return ours // theirs may be an earlier version of ours that was changed back
	case equalOrAbsent(ours, base) && (len(tried) == 0 || !k.hasMembers() && k != mergeDims && k != mergeTypesList):
		return theirs
	case k == mergeDim && base == "" && !(isUnlimited(ours) && isUnlimited(theirs)): // two new dimensions
		m.conflict(name)
		return theirs
	}
	kind := ours.Kind()
	if kind == theirs.Kind() {
		switch {
		case kind == jsontext.Object && k.hasMembers():
			return m.object(k, base, tried, ours, theirs)
		case kind == jsontext.Array && (k == mergeDims || k == mergeTypesList):
			if out, ok := m.namedList(k, base, tried, ours, theirs); ok {
				return out
			}
		case kind == jsontext.Array && k == mergeNames:
			if out, ok := m.names(base, ours, theirs); ok {
				return out
			}
		case kind == jsontext.Array && k == mergeLengths:
			if out, ok := larger(elements(ours), elements(theirs)); ok {
				return out
			}
		case kind == jsontext.Number && (k == mergeLength || k == mergeDim):
			x, xok := ours.Int64()
			y, yok := theirs.Int64()
			if xok && yok {
				return jsontext.Value(strconv.FormatInt(max(x, y), 10))
			}
		}
	}
	if k != mergeTheirs && !equalOrAbsent(ours, base) {
		m.conflict(name)
	}
	return theirs
}

// isUnlimited reports whether a dimension is an object whose member unlimited is true.
func isUnlimited(dim jsontext.Value) bool {
	return dim.Kind() == jsontext.Object && isTrue(dim.Get("unlimited"))
}

// hasMembers reports whether the members of an object are merged separately.
func (k mergeKind) hasMembers() bool {
	switch k {
	case mergeDoc, mergeArrayDoc, mergeAttrs, mergeGroup, mergeArray, mergeTypes, mergeNamed, mergeDims, mergeDim:
		return true
	}
	return false
}

// object merges the members of objects. Members of theirs come first.
func (m *merger) object(k mergeKind, base jsontext.Value, tried []jsontext.Value, ours, theirs jsontext.Value) jsontext.Value {
	b, o, h := memberMap(base), memberMap(ours), memberMap(theirs)
	before := make([]map[string]jsontext.Value, len(tried))
	for i, t := range tried {
		before[i] = memberMap(t)
	}
	if k == mergeAttrs {
		m.decideUnits(base, tried, ours, theirs)
	}
	w := &jsontext.Writer{Style: m.style}
	w.Open('{')
	add := func(key string) {
		was := make([]jsontext.Value, len(before))
		for i := range before {
			was[i] = before[i][key]
		}
		if k == mergeAttrs || k == mergeNamed {
			if mine, ok := m.units[key]; ok {
				if val := pick(mine, o[key], h[key]); val != "" {
					w.Key(key).ValueKeepNaN(val)
				}
				return
			}
		}
		if val := m.value(k.member(key), key, b[key], was, o[key], h[key]); val != "" {
			w.Key(key).ValueKeepNaN(val)
		}
	}
	for _, e := range jsontext.Members(nil, theirs) {
		add(e.Key)
	}
	for _, e := range jsontext.Members(nil, ours) {
		if _, there := h[e.Key]; !there {
			add(e.Key)
		}
	}
	w.Close()
	return jsontext.Value(w.Bytes())
}

// namedList merges lists of objects with distinct names. ok is false for other lists.
func (m *merger) namedList(k mergeKind, base jsontext.Value, tried []jsontext.Value, ours, theirs jsontext.Value) (out jsontext.Value, ok bool) {
	b, _ := namedMap(base)
	o, ook := namedMap(ours)
	h, hok := namedMap(theirs)
	if !ook || !hok {
		return "", false
	}
	w := &jsontext.Writer{Style: m.style}
	w.Open('[')
	add := func(key string) {
		was := make([]jsontext.Value, len(tried))
		for i, t := range tried {
			list, _ := namedMap(t)
			was[i] = list[key]
		}
		entry := mergeWhole
		if k == mergeDims {
			entry = mergeDim
		} else if mine, ok := m.units[key]; ok {
			if val := pick(mine, o[key], h[key]); val != "" {
				w.ValueKeepNaN(val)
			}
			return
		}
		if val := m.value(entry, key, b[key], was, o[key], h[key]); val != "" {
			w.ValueKeepNaN(val)
		}
	}
	for _, e := range named(theirs) {
		add(e.Key)
	}
	for _, e := range named(ours) {
		if _, there := h[e.Key]; !there {
			add(e.Key)
		}
	}
	w.Close()
	return jsontext.Value(w.Bytes()), true
}

// namedMap returns the elements of a list by name. ok is false if an element has no name
// or two have the same.
func namedMap(list jsontext.Value) (out map[string]jsontext.Value, ok bool) {
	out, ok = make(map[string]jsontext.Value), true
	for _, e := range named(list) {
		_, twice := out[e.Key]
		ok = ok && e.Key != "" && !twice
		out[e.Key] = e.Val
	}
	return out, ok
}

// names merges lists of names: those of theirs, without the ones that ours has removed, and the
// ones that ours has added.
func (m *merger) names(base, ours, theirs jsontext.Value) (out jsontext.Value, ok bool) {
	o, ook := stringsIn(ours)
	h, hok := stringsIn(theirs)
	if !ook || !hok {
		return "", false
	}
	b, _ := stringsIn(base)
	var list []string
	for _, name := range h {
		if slices.Contains(o, name) || !slices.Contains(b, name) {
			list = append(list, name)
		}
	}
	for _, name := range o {
		if !slices.Contains(h, name) && !slices.Contains(b, name) {
			list = append(list, name)
		}
	}
	w := &jsontext.Writer{Style: m.style}
	w.Strings(list)
	return jsontext.Value(w.Bytes()), true
}

// larger returns the larger lengths of two shapes. ok is false if they have different ranks or
// are not shapes.
func larger(a, b []jsontext.Value) (out jsontext.Value, ok bool) {
	if len(a) != len(b) {
		return "", false
	}
	list := make([]int64, len(a))
	for i := range a {
		x, xok := a[i].Int64()
		y, yok := b[i].Int64()
		if !xok || !yok {
			return "", false
		}
		list[i] = max(x, y)
	}
	w := &jsontext.Writer{}
	w.Ints(list)
	return jsontext.Value(w.Bytes()), true
}

// equalOrAbsent reports whether two values are equal, or both are absent.
func equalOrAbsent(a, b jsontext.Value) bool {
	return (a == "") == (b == "") && (a == "" || same(a, b))
}

// ShapeOf returns the shape in the document that describes an array, .zarray or zarr.json. It
// fails with ErrMetadata if the document has no valid shape.
func ShapeOf(doc []byte) ([]int64, error) {
	v, err := jsontext.Check(string(doc))
	list := elements(v.Get("shape"))
	shape := make([]int64, len(list))
	ok := err == nil && v.Get("shape").Kind() == jsontext.Array
	for i, e := range list {
		n, is := e.Int64()
		shape[i], ok = n, ok && is && n >= 0
	}
	if !ok {
		return nil, ncerr.Errorf(ncerr.ErrMetadata, "parse", "", "shape: expected an array of lengths, found %s", orMissing(v.Get("shape")))
	}
	return shape, nil
}
