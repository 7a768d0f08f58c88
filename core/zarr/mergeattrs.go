package zarr

import (
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// typedAttr is an attribute in a document: its value and the text of its type. Absent ones
// are "".
type typedAttr struct{ value, typ jsontext.Value }

// equal reports whether two attributes have the same value and type, or are both absent.
func (a typedAttr) equal(b typedAttr) bool {
	if !equalOrAbsent(a.value, b.value) {
		return false
	}
	if equalOrAbsent(a.typ, b.typ) {
		return true
	}
	x, xjson, xok := attrType(a.typ.Text())
	y, yjson, yok := attrType(b.typ.Text())
	return xok && yok && x == y && xjson == yjson // spelled differently
}

// typedAttrs returns the attributes in an object that contains attributes and blocks, by name.
// It omits members that are not merged as a whole.
func typedAttrs(attrs jsontext.Value) map[string]typedAttr {
	out := make(map[string]typedAttr)
	for _, e := range jsontext.Members(nil, attrs) {
		out[e.Key] = typedAttr{value: e.Val}
	}
	for _, p := range places[attrBlock] {
		block := attrs.Get(p.member)
		if p.member == "" || block == "" {
			continue
		}
		for _, e := range jsontext.Members(nil, block.Get("types")) {
			out[e.Key] = typedAttr{out[e.Key].value, e.Val}
		}
		for _, e := range named(block.Get("attribute_types")) {
			out[e.Key] = typedAttr{out[e.Key].value, e.Val.Get("configuration").Get("type")}
		}
	}
	for name := range out {
		if mergeAttrs.member(name) != mergeWhole {
			delete(out, name)
		}
	}
	return out
}

// decideUnits determines for each attribute which writer's value and type are used, because a
// value of one writer must not get the type of the other.
func (m *merger) decideUnits(base jsontext.Value, tried []jsontext.Value, ours, theirs jsontext.Value) {
	b, o, h := typedAttrs(base), typedAttrs(ours), typedAttrs(theirs)
	before := make([]map[string]typedAttr, len(tried))
	for i, t := range tried {
		before[i] = typedAttrs(t)
	}
	m.units = make(map[string]bool)
	decide := func(name string) {
		mine, other := o[name], h[name]
		switch {
		case mine.equal(other):
			m.units[name] = false
		case other.equal(b[name]), slices.ContainsFunc(before, func(t map[string]typedAttr) bool { return other.equal(t[name]) }):
			m.units[name] = true
		default:
			if m.units[name] = false; !mine.equal(b[name]) {
				m.conflict(name)
			}
		}
	}
	for _, e := range jsontext.Members(nil, theirs) { // in the order of the document
		if _, ok := h[e.Key]; ok {
			decide(e.Key)
		}
	}
	for _, e := range jsontext.Members(nil, ours) {
		if _, ok := o[e.Key]; ok {
			if _, done := m.units[e.Key]; !done {
				decide(e.Key)
			}
		}
	}
	for _, list := range []map[string]typedAttr{h, o} { // types without a value
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if _, done := m.units[name]; !done {
				decide(name)
			}
		}
	}
}

// pick returns one of two values.
func pick(mine bool, ours, theirs jsontext.Value) jsontext.Value {
	if mine {
		return ours
	}
	return theirs
}
