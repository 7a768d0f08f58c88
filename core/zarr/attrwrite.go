package zarr

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// stringAttr is the length that netcdf-c records in the type of string attributes. For a
// longer string, the type contains the length of the string.
const stringAttr = 128

func invalid(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrInvalid, "write metadata", "", format, args...)
}

// checkAttr fails if an attribute cannot be written: its name must be legal, and its
// value must have the Go type of its type.
func checkAttr(a Attr, s *spelling) error {
	if a.Name == "" || reserved(a.Name, s.v3) {
		return ncerr.Errorf(ncerr.ErrBadName, "write attribute", a.Name, "the name is empty or reserved")
	}
	nc, ok := dtype.TypeOf(a.Value)
	if !ok || nc != a.Type || a.Type == dtype.NCNone {
		return ncerr.Errorf(ncerr.ErrBadType, "write attribute", a.Name, "a %T is not a value of type %s", a.Value, a.Type)
	}
	if list, ok := a.Value.([]string); ok && s.pure && len(list) > 1 && allWords(list) {
		return ncerr.Errorf(ncerr.ErrUnsupported, "write attribute", a.Name, "pure Zarr readers would read the strings %q as numbers", list)
	}
	return nil
}

// writeAttr writes the value of an attribute. It writes the JSON that the value was read
// from if that JSON is still valid. Otherwise it writes a single value as is, and any
// other number of values as an array. In pure Zarr a single string, NaN or infinity is an
// array too, because readers would otherwise treat the value as char.
func writeAttr(w *jsontext.Writer, a Attr, s *spelling) {
	switch v := a.originalJSON(s); v.Kind() {
	case jsontext.Invalid:
	case jsontext.String: // avoids \u escapes, which netcdf-c does not decode
		w.String(v.Text())
		return
	default:
		w.ValueKeepNaN(v)
		return
	}
	if text, ok := a.Value.(string); ok {
		writeChars(w, a.Name, text, s)
		return
	}
	// NCZarr records the type of a value beside it, and netcdf-c writes whole floats as
	// integers. But with an integer as scale_factor xarray cannot decode masked values.
	point := s.pure || a.Name == "scale_factor" || a.Name == "add_offset"
	if dtype.Len(a.Value) == 1 && !(s.pure && a.Name != fillAttr && quotedSingle(a.Value)) {
		appendValues(w, a.Value, point)
		return
	}
	w.Open('[')
	appendValues(w, a.Value, point)
	w.Close()
}

// originalJSON returns the JSON that a was read from, if readers of the layout still parse
// it as a, and "" otherwise. In a layout with attribute types it returns only strings, so
// that a string that looks like an object stays a string.
func (a Attr) originalJSON(s *spelling) jsontext.Value {
	if a.JSON == "" || a.Type == dtype.NCString { // strings have only one form
		return ""
	}
	v, err := jsontext.Check(a.JSON)
	if err != nil {
		return ""
	}
	nc, value, ok := a.Type, any(nil), true
	switch isFill := a.Name == fillAttr; {
	case s.pure && !isFill:
		nc, value = inferred(v)
	case s.pure, a.Type == dtype.NCChar && v.Kind() == jsontext.String && !isFill:
		value, ok = typed(nc, v)
	default:
		return ""
	}
	if !ok || nc != a.Type || !sameValue(value, a.Value) {
		return ""
	}
	return v
}

// sameValue reports whether two attribute values of the same type are equal bit for bit.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case string:
		return a == b
	case []string:
		b, ok := b.([]string)
		return ok && slices.Equal(a, b)
	}
	x, _, xok := dtype.View(a)
	y, _, yok := dtype.View(b)
	return xok && yok && bytes.Equal(x, y)
}

// quotedSingle reports whether the single value in a slice is written in quotes, so
// that a reader without types would treat it as char. It returns false for a string
// such as "NaN": inside an array, readers would parse that string as a number, and without
// an array they parse it as char with the same content.
func quotedSingle(v any) bool {
	switch s := v.(type) {
	case []string:
		return !allWords(s)
	case []float32:
		return !finite(float64(s[0]))
	case []float64:
		return !finite(s[0])
	}
	return false
}

func finite(f float64) bool { return f-f == 0 }

// allWords reports whether every string is a word such as NaN, which a reader without
// types parses as a number.
func allWords(list []string) bool {
	for _, text := range list {
		v := jsontext.Value(jsontext.AppendString(nil, text))
		if _, ok := v.Float(64); !ok {
			return false
		}
	}
	return len(list) > 0
}

// writeChars writes a char attribute. A JSON object or array that reads back unchanged is
// written as that value. Anything else is written as a string.
func writeChars(w *jsontext.Writer, name, text string, s *spelling) {
	if name == fillAttr && text == "\x00" {
		text = ""
	}
	if text != "" && (text[0] == '{' || text[0] == '[' && s.embedArrays) && json.Valid([]byte(text)) {
		v, err := jsontext.Check(text)
		same := err == nil && string(v) == text
		if same && s.pure {
			nc, back := inferred(v)
			same = nc == dtype.NCChar && back == text
		}
		if same {
			w.Raw(v)
			return
		}
	}
	w.String(text)
}

// appendValues writes the values of a typed slice, one after the other. If point is set,
// it appends ".0" to whole floating-point values, so that readers without types do not
// treat them as integers.
func appendValues(w *jsontext.Writer, values any, point bool) {
	switch s := values.(type) {
	case []int8:
		writeInts(w, s)
	case []int16:
		writeInts(w, s)
	case []int32:
		writeInts(w, s)
	case []int64:
		writeInts(w, s)
	case []uint8:
		writeUints(w, s)
	case []uint16:
		writeUints(w, s)
	case []uint32:
		writeUints(w, s)
	case []uint64:
		writeUints(w, s)
	case []float32:
		for _, f := range s {
			w.Append(func(dst []byte) []byte { return appendFloat(dst, float64(f), 32, point) })
		}
	case []float64:
		for _, f := range s {
			w.Append(func(dst []byte) []byte { return appendFloat(dst, f, 64, point) })
		}
	case []string:
		for _, text := range s {
			w.String(text)
		}
	}
}

func writeInts[T int8 | int16 | int32 | int64](w *jsontext.Writer, s []T) {
	for _, v := range s {
		w.Int(int64(v))
	}
}

func writeUints[T uint8 | uint16 | uint32 | uint64](w *jsontext.Writer, s []T) {
	for _, v := range s {
		w.Append(func(dst []byte) []byte { return strconv.AppendUint(dst, uint64(v), 10) })
	}
}

func appendFloat(dst []byte, f float64, bits int, point bool) []byte {
	start := len(dst)
	dst = dtype.AppendFloat(dst, f, bits)
	if !point || dst[start] == '"' {
		return dst
	}
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// typeText returns the spelling of an attribute's type.
func (s *spelling) typeText(a Attr) string {
	if s.numericTypes {
		return strconv.Itoa(int(a.Type))
	}
	switch a.Type {
	case dtype.NCChar:
		return s.char
	case dtype.NCString:
		if s.v3 {
			return aliasString
		}
		n := stringAttr
		for _, text := range a.Value.([]string) { //nolint:forcetypeassert // the value is always []string
			n = max(n, len(text))
		}
		return "|S" + strconv.Itoa(n)
	}
	return a.Type.Type(dtype.Little).String()
}
