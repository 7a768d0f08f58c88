package zarr

import (
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// attrReader converts JSON to typed attributes.
//
// NCZarr's attribute types determine the type of an attribute. If no type is recorded
// for _FillValue, it has the type of its variable. All other types are inferred:
//
//	integers            the first of int, uint, int64, uint64, double that holds all
//	other numbers       double
//	true and false      ubyte 1 and 0
//	a string            char
//	several strings     string
//	["NaN"] and so on   double, if all strings are NaN or infinities
//	[]                  int, without values
//	null, objects, and arrays of anything else: char that holds the JSON text
//
// If a value does not fit its type, the type is inferred and a warning is recorded. Char
// can hold any value, as JSON text.
type attrReader struct {
	n     *node
	doc   string
	attrs *document // attributes document; nil if the node has none
	types typeList
	place place    // location of the types; zero if the node has none
	fill  dtype.NC // type of _FillValue, or NCNone
	bytes bool     // elements are bytes; Zarr v3 stores _FillValue in base64
	text  bool     // _FillValue is stored under the name textFillAttr
}

// load finds the attributes of the node and, if nczarr is set, their types.
func (r *attrReader) load(nczarr bool) error {
	n := r.n
	r.attrs, r.doc = n.attrsDoc()
	if !nczarr {
		return nil
	}
	blk, p, err := n.block(attrBlock)
	if err != nil || blk == "" {
		return err
	}
	r.place = p
	if r.place.layout == LayoutNewest && !n.newest() {
		r.place.layout = LayoutLower
	}
	if n.v3 {
		return r.loadListV3(blk, p)
	}
	types := blk.Get("types")
	switch types.Kind() {
	case jsontext.Invalid, jsontext.Null:
		return nil
	case jsontext.Object:
	default:
		return n.bad(p.doc, "types", "expected an object, found %s", clip(types))
	}
	n.types = jsontext.Members(n.types, types)
	r.types = newTypeList(n.types)
	return nil
}

// loadListV3 parses the attribute types of NCZarr 3: a list of objects with the members
// "name" and "configuration". The configuration has the member "type".
func (r *attrReader) loadListV3(blk jsontext.Value, p place) error {
	n, types := r.n, blk.Get("attribute_types")
	switch types.Kind() {
	case jsontext.Invalid, jsontext.Null:
		return nil
	case jsontext.Array:
	default:
		return n.bad(p.doc, "attribute_types", "expected an array of objects, found %s", clip(types))
	}
	n.types = named(types)
	for i, m := range n.types {
		text := m.Val.Get("configuration").Get("type")
		if m.Key == "" || text.Kind() != jsontext.String {
			return n.bad(p.doc, "attribute_types", "entry %d: expected an object with name and configuration, found %s", i, clip(m.Val))
		}
		n.types[i].Val = text
	}
	r.types = newTypeList(n.types)
	return nil
}

// typeList looks up attribute types by name. Types are usually in the order of the
// attributes, so a search starts where the last one ended.
type typeList struct {
	list  []jsontext.Member
	next  int
	index map[string]int // nil for a short list
}

func newTypeList(list []jsontext.Member) typeList {
	l := typeList{list: list}
	if len(list) > 64 {
		l.index = make(map[string]int, len(list))
		for i := range list {
			l.index[list[i].Key] = i
		}
	}
	return l
}

func (l *typeList) find(name string) (text string, ok bool) {
	if l.index != nil {
		if at, ok := l.index[name]; ok {
			return l.list[at].Val.Text(), true
		}
		return "", false
	}
	for k := range l.list {
		at := l.next + k
		if at >= len(l.list) {
			at -= len(l.list)
		}
		if l.list[at].Key == name {
			l.next = at + 1
			return l.list[at].Val.Text(), true
		}
	}
	return "", false
}

// newest reports whether the node has LayoutNewest rather than LayoutLower. Both store
// the attribute types in the same place, but only LayoutNewest stores another block next
// to them.
func (n *node) newest() bool {
	attrs, _ := n.attrsDoc()
	return attrs.get("_nczarr_group") != "" || attrs.get("_nczarr_array") != "" || attrs.get("_nczarr_superblock") != ""
}

// all returns all attributes except the reserved ones.
func (r *attrReader) all() []Attr {
	if r.attrs == nil {
		return nil
	}
	list := make([]Attr, 0, len(r.attrs.Members))
	for _, m := range r.attrs.Members {
		if reserved(m.Key, r.n.v3) || r.ignored(m.Key) {
			continue
		}
		if m.Key == "" {
			r.n.warn("%s: ignored attribute without a name", r.n.key(r.doc))
			continue
		}
		name := m.Key
		if name == textFillAttr && r.text && r.attrs.get(fillAttr) == "" {
			name = fillAttr
		}
		a := r.attr(name, m.Key, m.Val)
		a.JSON = string(m.Val)
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// ignored reports whether to omit the attribute named key. This is the case for
// textFillAttr, the _FillValue of text, if the elements are not text: in pure Zarr a char
// array of NCZarr 3 is read as numbers.
func (r *attrReader) ignored(key string) bool { return r.n.v3 && key == textFillAttr && !r.text }

// attr parses v as the value of the attribute called name. key is the name of the attribute
// in the document.
func (r *attrReader) attr(name, key string, v jsontext.Value) Attr {
	nc, asJSON := dtype.NCNone, false
	text, given := r.types.find(key)
	if given {
		var ok bool
		if nc, asJSON, ok = attrType(text); !ok {
			r.n.warn("%s: attribute %q: unknown type %q; the type is inferred from the value", r.n.key(r.doc), name, text)
		}
	} else if name == fillAttr {
		nc = r.fill
	}
	if nc == dtype.NCNone {
		return infer(name, v)
	}
	if r.n.v3 && name == fillAttr {
		if value, ok := fillAttrV3(nc, v, r.bytes); ok {
			return Attr{Name: name, Type: nc, Value: value}
		}
	}
	if asJSON && v.Kind() != jsontext.String {
		return Attr{Name: name, Type: dtype.NCChar, Value: string(v)}
	}
	if value, ok := typed(nc, v); ok {
		if s, isText := value.(string); isText && name == fillAttr && s == "" {
			value = "\x00"
		}
		return Attr{Name: name, Type: nc, Value: value}
	}
	r.n.warn("%s: attribute %q: %s does not fit type %s; the type is inferred from the value", r.n.key(r.doc), name, clip(v), nc)
	return infer(name, v)
}

// attrType parses an attribute type: a dtype, "|J0" for JSON, the number of a netCDF type,
// or a name of Zarr v3 or of a type_alias. ">S1" and one-character "U" types are char.
// "|S" followed by any number is string, even if the number exceeds the maximum element
// size.
func attrType(text string) (nc dtype.NC, asJSON, ok bool) {
	switch text {
	case "|J0", ">J0", "<J0", "J0", aliasJSON:
		return dtype.NCChar, true, true
	case ">S1", "<S1", "S1", "<U1", ">U1", "|U1", "U1", aliasChar:
		return dtype.NCChar, false, true
	case aliasString:
		return dtype.NCString, false, true
	}
	if form, ok := typesV3[text]; ok {
		text = strings.Replace(form, "*", "<", 1)
	}
	if k, ok := jsontext.Value(text).Int64(); ok {
		if k >= 1 && k <= int64(dtype.NCString) {
			return dtype.NC(k), false, true // k is at most NCString
		}
		return dtype.NCNone, false, false
	}
	if digits, found := strings.CutPrefix(text, "|S"); found && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return dtype.NCString, false, true
	}
	t, err := dtype.Parse(text)
	if err != nil {
		return dtype.NCNone, false, false
	}
	nc = t.NC()
	return nc, false, nc != dtype.NCNone
}

// typed parses v as values of type nc. ok is false if v does not fit.
func typed(nc dtype.NC, v jsontext.Value) (value any, ok bool) {
	switch nc {
	case dtype.NCChar:
		return v.Text(), true
	case dtype.NCString:
		return typedStrings(v), true
	case dtype.NCByte:
		return ints[int8](v, math.MinInt8, math.MaxInt8)
	case dtype.NCShort:
		return ints[int16](v, math.MinInt16, math.MaxInt16)
	case dtype.NCInt:
		return ints[int32](v, math.MinInt32, math.MaxInt32)
	case dtype.NCInt64:
		return ints[int64](v, math.MinInt64, math.MaxInt64)
	case dtype.NCUByte:
		return uints[uint8](v, math.MaxUint8)
	case dtype.NCUShort:
		return uints[uint16](v, math.MaxUint16)
	case dtype.NCUInt:
		return uints[uint32](v, math.MaxUint32)
	case dtype.NCUInt64:
		return uints[uint64](v, math.MaxUint64)
	case dtype.NCFloat:
		return floats[float32](v, 32)
	case dtype.NCDouble:
		return floats[float64](v, 64)
	}
	return nil, false
}

// sizeHint estimates how many values v has. The estimate is exact for a single value.
func sizeHint(v jsontext.Value) int {
	if v.Kind() != jsontext.Array {
		return 1
	}
	return 1 + min(strings.Count(string(v), ","), 1024)
}

// each calls f for v, or for each element if v is an array, until f returns false. It
// reports whether every call returned true.
func each(v jsontext.Value, f func(jsontext.Value) bool) bool {
	if v.Kind() != jsontext.Array {
		return f(v)
	}
	ok := true
	_ = v.Elems(func(_ int, e jsontext.Value) error {
		ok = ok && f(e)
		return nil
	})
	return ok
}

func typedStrings(v jsontext.Value) []string {
	list := make([]string, 0, sizeHint(v))
	each(v, func(e jsontext.Value) bool { list = append(list, e.Text()); return true })
	return list
}

func ints[T int8 | int16 | int32 | int64](v jsontext.Value, lo, hi int64) (any, bool) {
	list := make([]T, 0, sizeHint(v))
	ok := each(v, func(e jsontext.Value) bool {
		n, ok := intOf(e)
		list = append(list, T(n))
		return ok && n >= lo && n <= hi
	})
	return list, ok
}

func uints[T uint8 | uint16 | uint32 | uint64](v jsontext.Value, hi uint64) (any, bool) {
	list := make([]T, 0, sizeHint(v))
	ok := each(v, func(e jsontext.Value) bool {
		n, ok := uintOf(e)
		list = append(list, T(n))
		return ok && n <= hi
	})
	return list, ok
}

func floats[T float32 | float64](v jsontext.Value, bits int) (any, bool) {
	list := make([]T, 0, sizeHint(v))
	ok := each(v, func(e jsontext.Value) bool {
		f, ok := floatOf(e, bits)
		list = append(list, T(f))
		return ok
	})
	return list, ok
}

// intOf parses an integer: a number without a fraction, a boolean, or a string that
// contains such a number.
func intOf(v jsontext.Value) (int64, bool) {
	v = unquote(v)
	if v == "true" || v == "false" {
		return int64(len("false") - len(v)), true // "true" has 4 bytes
	}
	if v.IsInt() {
		return v.Int64()
	}
	f, ok := v.Float(64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// uintOf is like intOf, for unsigned integers.
func uintOf(v jsontext.Value) (uint64, bool) {
	v = unquote(v)
	if n, ok := v.Uint64(); ok {
		return n, true
	}
	n, ok := intOf(v)
	return uint64(n), ok && n >= 0
}

// floatOf parses a number, a boolean, a word or string such as NaN, or a string that
// contains a number.
func floatOf(v jsontext.Value, bits int) (float64, bool) {
	v = unquote(v)
	if v == "true" || v == "false" {
		return float64(len("false") - len(v)), true
	}
	return v.Float(bits)
}

// unquote returns the content of a string that contains a single number or word. It
// returns any other value unchanged.
func unquote(v jsontext.Value) jsontext.Value {
	if v == "" || v[0] != '"' {
		return v
	}
	inner := jsontext.Value(strings.TrimSpace(v.Text()))
	switch inner.Kind() {
	case jsontext.Number, jsontext.Word:
		return inner
	}
	return v
}

// infer returns an attribute with the type inferred from its value.
func infer(name string, v jsontext.Value) Attr {
	nc, value := inferred(v)
	return Attr{Name: name, Type: nc, Value: value}
}

func inferred(v jsontext.Value) (dtype.NC, any) {
	asText := func() (dtype.NC, any) { return dtype.NCChar, v.Text() }
	switch v.Kind() {
	case jsontext.Bool, jsontext.Number, jsontext.Array:
	case jsontext.Word:
		if _, ok := v.Float(64); !ok {
			return asText()
		}
	default:
		return asText()
	}
	nc := elemType(v)
	if nc == dtype.NCNone {
		return asText()
	}
	value, ok := typed(nc, v)
	if !ok {
		return asText()
	}
	return nc, value
}

// elemType returns the type that can hold v, or every element of v if v is an array. It
// returns NCNone if no type can.
func elemType(v jsontext.Value) dtype.NC {
	var total, bools, strs, words, numbers, fractions int
	var neg, big bool // a value below 0; a value above the largest int64
	low, high := int64(0), int64(0)
	each(v, func(e jsontext.Value) bool {
		total++
		switch e.Kind() {
		case jsontext.Bool:
			bools++
		case jsontext.String:
			strs++
			if _, ok := e.Float(64); ok {
				words++
			}
		case jsontext.Number, jsontext.Word:
			numbers++
			if !e.IsInt() {
				fractions++ // the number is validated when parsed
			} else if n, ok := e.Int64(); ok {
				low, high, neg = min(low, n), max(high, n), neg || n < 0
			} else if _, ok := e.Uint64(); ok {
				big = true
			} else {
				fractions++
			}
		}
		return true
	})
	switch {
	case total == 0:
		return dtype.NCInt
	case bools == total:
		return dtype.NCUByte
	case words == total && strs == total:
		return dtype.NCDouble
	case strs == total:
		return dtype.NCString
	case numbers == 0 || numbers+words != total:
		return dtype.NCNone
	case fractions > 0 || words > 0 || big && neg:
		return dtype.NCDouble
	case big:
		return dtype.NCUInt64
	case low >= math.MinInt32 && high <= math.MaxInt32:
		return dtype.NCInt
	case !neg && high <= math.MaxUint32:
		return dtype.NCUInt
	}
	return dtype.NCInt64
}
