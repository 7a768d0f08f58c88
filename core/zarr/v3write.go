package zarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// memberV3 is a member of a zarr.json. When the document of an existing node is
// rewritten, only members with changes set are written, and the others keep their old
// value.
type memberV3 struct {
	key     string
	changes bool
	write   func(w *jsontext.Writer) error
}

// docV3 writes a zarr.json. If it replaces a document, the members that do not change,
// and the order of all members, stay the same.
func (o *output) docV3(members []memberV3) (Docs, error) {
	w := o.doc(V3Doc)
	var old *document
	if o.old != nil {
		old = o.old.doc(V3Doc)
	}
	written := make(map[string]bool)
	if old != nil {
		for _, m := range old.Members {
			written[m.Key] = true
			w.Key(m.Key)
			i := slices.IndexFunc(members, func(n memberV3) bool { return n.key == m.Key && n.changes })
			if i < 0 {
				w.ValueKeepNaN(m.Val)
			} else if err := members[i].write(w); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range members {
		if written[m.key] || old != nil && !m.changes {
			continue
		}
		w.Key(m.key)
		if err := m.write(w); err != nil {
			return nil, err
		}
	}
	w.Close()
	return Docs{V3Doc: w.Bytes()}, nil
}

// nodeV3 returns the members at the start of every zarr.json. kind is the node_type.
func nodeV3(kind string) []memberV3 {
	return []memberV3{
		{"zarr_format", false, func(w *jsontext.Writer) error { w.Int(3); return nil }},
		{"node_type", false, func(w *jsontext.Writer) error { w.String(kind); return nil }},
	}
}

// arrayV3 writes the zarr.json of an array.
//
// Source: Zarr v3, "Array metadata"; zarr-python 3.4.2 for the spelling.
func (o *output) arrayV3(a *Array, noXarray bool) (Docs, error) {
	shape, grid := a.Shape, a.ObjectGrid()
	if a.Scalar && o.old == nil {
		shape, grid = []int64{}, chunk.Regular([]int64{})
	}
	stored, r := *a, a.attrReader(o.old)
	if !o.s.pure && a.DType.Kind == dtype.Char {
		stored.DType = dtype.NCUByte.Type(dtype.OrderNone)
	}
	types, retyped := o.attrs(a.Attrs, r), o.retypesChar(a)
	if !o.s.pure {
		o.arrayBlock(a)
		o.types(types, []string{o.s.arrayName})
	}
	members := append(nodeV3("array"),
		memberV3{"shape", true, func(w *jsontext.Writer) error { w.Ints(shape); return nil }},
		memberV3{"data_type", retyped, func(w *jsontext.Writer) error { return writeTypeV3(w, &stored) }},
		memberV3{"chunk_grid", false, func(w *jsontext.Writer) error {
			if grid.Regular() {
				extensionV3(w, "regular", func() { w.Key("chunk_shape").Ints(grid.Largest()) })
				return nil
			}
			extensionV3(w, "rectilinear", func() {
				w.Key("kind").String("inline")
				writeGrid(w.Key("chunk_shapes"), grid)
			})
			return nil
		}},
		memberV3{"chunk_key_encoding", false, func(w *jsontext.Writer) error {
			writeKeysV3(w, a.Keys.Prefix, string(rune(a.Keys.Separator)), a.Keys.Suffix)
			return nil
		}},
		memberV3{"fill_value", retyped, func(w *jsontext.Writer) error { return writeFillV3(w, &stored) }},
		memberV3{"codecs", false, func(w *jsontext.Writer) error { return writeShardsV3(w, a, a.Shards, nil) }},
	)
	if names, _ := a.xarrayNames(o.s); !noXarray && slices.ContainsFunc(names, func(name string) bool { return name != "" }) {
		members = append(members, memberV3{"dimension_names", false, func(w *jsontext.Writer) error {
			w.Open('[')
			for _, name := range names {
				if name == "" {
					w.Raw("null")
				} else {
					w.String(name)
				}
			}
			w.Close()
			return nil
		}})
	}
	return o.docV3(append(members, o.attrsV3()))
}

// retypesChar reports whether a char array replaces one with the char type of the other
// Zarr v3 layout: NCZarr 3 has uint8 with an alias, and pure Zarr null_terminated_bytes.
func (o *output) retypesChar(a *Array) bool {
	if !o.s.v3 || o.old == nil || a.DType.Kind != dtype.Char {
		return false
	}
	return o.s.pure == (o.old.doc(V3Doc).get("data_type").Text() == "uint8")
}

// attrReader returns the reader for the attributes of a Zarr v3 array.
func (a *Array) attrReader(n *node) attrReader {
	r := attrReader{n: n, fill: a.DType.NC()}
	switch a.DType.Kind {
	case dtype.Bool, dtype.Int, dtype.Uint, dtype.Float, dtype.Complex:
	case dtype.Char, dtype.Bytes, dtype.VlenBytes:
		r.text, r.bytes = true, true
		if n != nil { // in the draft of NCZarr 3, strings of type r<N> have _FillValue as plain text
			form, _ := n.typeV3(n.doc(V3Doc).get("data_type"))
			r.bytes = !strings.HasPrefix(form, "|V")
		}
	default:
		r.text = true
	}
	return r
}

// fillNameV3 returns the name under which the attribute _FillValue is stored. It is
// _FillValue only for numbers: xarray refuses a dataset with a _FillValue of any other
// type. xarray would read the _FillValue of a char array as a float, because NCZarr 3
// stores chars as numbers.
//
// Source: xarray 2026.9.0, FillValueCoder.decode.
func (r *attrReader) fillNameV3() string {
	if r.text {
		return textFillAttr
	}
	return fillAttr
}

// attrsV3 returns the member that holds the attributes document.
func (o *output) attrsV3() memberV3 {
	_, changes := o.docs[AttrsDoc]
	w := o.doc(AttrsDoc)
	w.Close()
	return memberV3{"attributes", changes, func(doc *jsontext.Writer) error { doc.Raw(jsontext.Value(w.Bytes())); return nil }}
}

// listV3 writes the attributes in list and returns their names and types. An attribute
// keeps the JSON of the old document if r still parses it as the attribute's value.
// Attributes that [attrReader.all] omits are copied from the old document.
func (o *output) listV3(list []Attr, r attrReader) [][2]string {
	var old *document
	if o.old != nil {
		old = o.old.doc(AttrsDoc)
	}
	types := make([][2]string, len(list))
	for i, a := range list {
		types[i] = [2]string{a.Name, o.s.typeText(a)}
		if a.Name == fillAttr && old.get(fillAttr) == "" {
			types[i][0] = r.fillNameV3()
		}
	}
	r.n = &node{v3: true}
	if !o.s.pure {
		for _, t := range types {
			r.n.types = append(r.n.types, jsontext.Member{Key: t[0], Val: jsontext.Value(jsontext.AppendString(nil, t[1]))})
		}
		r.types = newTypeList(r.n.types)
	}
	for i, a := range list {
		w := o.doc(AttrsDoc).Key(types[i][0])
		o.attrV3(w, types[i][0], a, old, &r)
		if a.Type == dtype.NCChar && a.Name != fillAttr && !bytes.HasSuffix(w.Bytes(), []byte{'"'}) {
			types[i][1] = o.s.json
		}
	}
	if old != nil {
		for _, m := range old.Members {
			if m.Key == xarrayDims || m.Key == "" || o.s.pure && reserved(m.Key, true) || r.ignored(m.Key) {
				o.doc(AttrsDoc).Key(m.Key).ValueKeepNaN(m.Val)
			}
		}
	}
	return types
}

// attrV3 writes the value of an attribute whose name in the document is name.
func (o *output) attrV3(w *jsontext.Writer, name string, a Attr, old *document, r *attrReader) {
	was, text := old.get(name), jsontext.Value(a.JSON)
	isFloat, isText := a.Type == dtype.NCFloat || a.Type == dtype.NCDouble, a.Type == dtype.NCChar || a.Type == dtype.NCString
	switch {
	case was != "" && was == text && r.reads(name, was, a):
		w.ValueKeepNaN(was)
	case a.Name == fillAttr && o.s.pure && a.Type != r.fill && text != "" && r.reads(name, text, a):
		w.ValueKeepNaN(text)
	case a.Name == fillAttr:
		writeFillAttrV3(w, a, r.bytes, o.s)
	case text != "" && json.Valid([]byte(text)) && r.reads(name, text, a) && (o.s.pure || !isFloat) && (isText || !strings.Contains(a.JSON, `"`)):
		w.Raw(text)
	case o.s.pure && isText && holdsNaN(text) && r.reads(name, text, a):
		w.ValueKeepNaN(text)
	case isFloat && dtype.Len(a.Value) > 0:
		writeFloatAttrV3(w, a)
	default:
		a.JSON = ""
		writeAttr(w, a, o.s)
	}
}

// holdsNaN reports whether text is an array or object with NaN or an infinity as a bare word.
func holdsNaN(text jsontext.Value) bool {
	v, err := jsontext.Check(string(text))
	return err == nil && (v.Kind() == jsontext.Array || v.Kind() == jsontext.Object) && !json.Valid([]byte(text))
}

// reads reports whether v, the value of the member name in the document, parses as the
// attribute a.
func (r *attrReader) reads(name string, v jsontext.Value, a Attr) bool {
	got := r.attr(a.Name, name, v)
	return got.Type == a.Type && sameValue(got.Value, a.Value)
}

// typesV3 writes the types of attributes; it is the reverse of loadListV3. An entry of the
// old document for the same type stays as it is.
func (o *output) typesV3(w *jsontext.Writer, types [][2]string) {
	const list = "attribute_types"
	old := o.oldEntries(attrBlock, list)
	w.Key(list).Open('[')
	for _, t := range types {
		was, wasJSON, ok := attrType(old[t[0]].Get("configuration").Get("type").Text())
		if nc, isJSON, _ := attrType(t[1]); ok && was == nc && wasJSON == isJSON {
			w.ValueKeepNaN(old[t[0]])
			continue
		}
		extensionV3(w, t[0], func() { w.Key("type").String(t[1]) })
	}
	w.Close()
}

// dimsV3 writes the dimensions of a group, with the unknown members of the old document.
func (o *output) dimsV3(w *jsontext.Writer, dims []Dim) {
	own, old := []string{"name", "size", "unlimited"}, o.oldEntries(groupBlock, o.s.dims)
	w.Open('[')
	for _, d := range dims {
		w.Open('{')
		w.Key(own[0]).String(d.Name)
		w.Key(own[1]).Int(d.Len)
		w.Key(own[2]).Int(map[bool]int64{true: 1}[d.Unlimited])
		for _, m := range jsontext.Members(nil, old[d.Name]) {
			if !slices.Contains(own, m.Key) {
				o.member(w, m)
			}
		}
		w.Close()
	}
	w.Close()
}

// oldEntries returns the elements of a list in a block of the old document, by name.
func (o *output) oldEntries(b block, list string) map[string]jsontext.Value {
	entries := make(map[string]jsontext.Value)
	if o.old != nil {
		v, _, _ := o.old.block(b) // an invalid block has no entries
		for _, m := range named(v.Get(list)) {
			entries[m.Key] = m.Val
		}
	}
	return entries
}

// aliasOf returns the type_alias of an array with elements of type t, or "" if the data
// type identifies the netCDF type.
func aliasOf(t dtype.Type) string {
	switch t.Kind {
	case dtype.Char:
		return aliasChar
	case dtype.Bytes, dtype.VlenBytes:
		return aliasString
	}
	return ""
}

// writeFloatAttrV3 writes the value of an attribute of floats. It writes NaN and infinities
// as bare words, as zarr-python does, because readers treat quoted words as strings. A
// single value is written as a list only if it was read from a list without quotes. A list
// of one quoted word, the form that pure Zarr v2 requires, is written as a single value.
func writeFloatAttrV3(w *jsontext.Writer, a Attr) {
	list := &jsontext.Writer{}
	list.Open('[')
	appendValues(list, a.Value, true)
	list.Close()
	text := strings.ReplaceAll(string(list.Bytes()), `"`, "")
	if dtype.Len(a.Value) == 1 && (!strings.HasPrefix(a.JSON, "[") || strings.Contains(a.JSON, `"`)) {
		text = strings.Trim(text, "[]")
	}
	w.Raw(jsontext.Value(text))
}

// writeFillAttrV3 writes the attribute _FillValue in the form that xarray expects: floats
// as the base64 of a little-endian float64, and byte strings as base64. It is the reverse
// of fillAttrV3.
func writeFillAttrV3(w *jsontext.Writer, a Attr, isBytes bool, s *spelling) {
	var b []byte
	switch v := a.Value.(type) {
	case []float32:
		if len(v) == 1 {
			b = binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v[0])))
		}
	case []float64:
		if len(v) == 1 {
			b = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v[0]))
		}
	case string:
		if isBytes {
			b = []byte(v)
		}
	case []string:
		if isBytes && len(v) == 1 {
			b = []byte(v[0])
		}
	}
	if b == nil {
		a.JSON = ""
		writeAttr(w, a, s)
		return
	}
	w.String(base64.StdEncoding.EncodeToString(b))
}

// extensionV3 writes an extension point: its name, and its configuration if conf is not
// nil.
func extensionV3(w *jsontext.Writer, name string, conf func()) {
	w.Open('{')
	w.Key("name").String(name)
	if conf != nil {
		w.Key("configuration").Open('{')
		conf()
		w.Close()
	}
	w.Close()
}

// writeKeysV3 writes a chunk_key_encoding.
func writeKeysV3(w *jsontext.Writer, prefix bool, separator, suffix string) {
	name := map[bool]string{true: "default", false: "v2"}[prefix]
	if suffix != "" {
		name = suffixKeys
	}
	extensionV3(w, name, func() {
		if w.Key("separator").String(separator); suffix != "" {
			w.Key("suffix").String(suffix)
		}
	})
}

// writeTypeV3 writes a data type; it is the reverse of typeV3.
func writeTypeV3(w *jsontext.Writer, a *Array) error {
	t := a.DType
	bits := strconv.Itoa(8 * t.Size)
	sized := func(name string) { extensionV3(w, name, func() { w.Key("length_bytes").Int(int64(t.Size)) }) }
	switch t.Kind {
	case dtype.Bool:
		w.String("bool")
	case dtype.Int:
		w.String("int" + bits)
	case dtype.Uint:
		w.String("uint" + bits)
	case dtype.Float:
		w.String("float" + bits)
	case dtype.Complex:
		w.String("complex" + bits)
	case dtype.String:
		w.String("string")
	case dtype.VlenBytes:
		w.String("variable_length_bytes")
	case dtype.Char, dtype.Bytes:
		sized("null_terminated_bytes")
	case dtype.Unicode:
		sized("fixed_length_utf32")
	case dtype.Raw:
		if a.isStruct() {
			return writeStructV3(w, a.Fields)
		}
		sized("raw_bytes")
	case dtype.Datetime, dtype.Timedelta:
		name := map[bool]string{true: "numpy.datetime64", false: "numpy.timedelta64"}[t.Kind == dtype.Datetime]
		unit := strings.TrimLeft(t.Unit, "0123456789")
		count, err := strconv.ParseInt(t.Unit[:len(t.Unit)-len(unit)], 10, 64)
		if err != nil {
			count = 1
		}
		if unit == "" {
			unit = "generic"
		}
		extensionV3(w, name, func() {
			w.Key("unit").String(unit)
			w.Key("scale_factor").Int(count)
		})
	default:
		return invalid("elements of type %s cannot be written", t)
	}
	return nil
}

// writeFillV3 writes fill_value. The member is required, so it is zero or the empty
// string for an array without a fill value.
//
// Source: Zarr v3, "Fill value representation".
func writeFillV3(w *jsontext.Writer, a *Array) error {
	t, fill := a.DType, a.Fill
	if !a.HasFill {
		fill = make([]byte, t.Size)
	}
	if t.Fixed() && len(fill) != t.Size {
		return invalid("a fill value of %d bytes does not fit type %s", len(fill), t)
	}
	switch t.Kind {
	case dtype.Float:
		return writeFloatsV3(w, t, fill)
	case dtype.Complex:
		w.Open('[')
		err := writeFloatsV3(w, dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}, fill)
		w.Close()
		return err
	case dtype.Char, dtype.Bytes:
		w.String(base64.StdEncoding.EncodeToString(bytes.TrimRight(fill, "\x00")))
		return nil
	case dtype.Raw:
		if a.isStruct() {
			return writeStructFillV3(w, a.Fields, fill)
		}
	}
	filled := *a
	filled.Fill, filled.HasFill = fill, true
	return writeFill(w, &filled, true)
}

// writeFloatsV3 writes floats so that they parse to the same bits. It writes a NaN in
// hexadecimal unless "NaN" parses to the same bits.
func writeFloatsV3(w *jsontext.Writer, t dtype.Type, b []byte) error {
	for ; len(b) > 0; b = b[t.Size:] {
		one := []float64{0}
		if err := dtype.Decode(one, b[:t.Size], t); err != nil {
			return err
		}
		quiet := map[int]uint64{2: 0x7e00, 4: 0x7fc00000, 8: 0x7ff8000000000000}[t.Size]
		if bits := bitsOf(b[:t.Size], t.Order); math.IsNaN(one[0]) && bits != quiet {
			w.String(fmt.Sprintf("0x%0*x", 2*t.Size, bits))
			continue
		}
		w.Append(func(dst []byte) []byte { return appendFloat(dst, one[0], 64, true) })
	}
	return nil
}

// bitsOf returns the bits of one stored number.
func bitsOf(b []byte, order dtype.Order) (bits uint64) {
	for i := range b {
		c := b[i]
		if order == dtype.Little {
			c = b[len(b)-1-i]
		}
		bits = bits<<8 | uint64(c)
	}
	return bits
}

// coreV3 lists the codecs that have the same name in Zarr v2 and v3. All others are
// extensions of numcodecs.
//
// Source: zarr-extensions, "codecs"; zarr-python 3.4.2.
var coreV3 = []string{"gzip", "zstd", "blosc", "crc32c", "vlen-utf8", "vlen-bytes", "cast_value", "scale_offset"}

// dataTypeV3 returns the v3 name of a little-endian type in the notation of NumPy, or text
// if there is no such name.
func dataTypeV3(text string) string {
	for name, form := range typesV3 {
		if strings.Replace(form, "*", "<", 1) == text {
			return name
		}
	}
	return text
}
