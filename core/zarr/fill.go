package zarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// fill parses fill_value. A missing value or null means no fill value, or in pure Zarr the
// value that nullFill returns. An array of one value means that value. A byte string is
// base64 in pure Zarr, as specified by Zarr v2. It is plain in NCZarr, and in pure Zarr if
// the attribute _FillValue is the same string, as netcdf-c writes it. If the string does
// not parse in one form, the other is tried.
//
// Source: Zarr v2, "Fill value encoding"; netcdf-c libnczarr/zsync.c.
func (n *node) fill(a *Array, v jsontext.Value) error {
	if v.Kind() == jsontext.Array && a.DType.Kind != dtype.Complex {
		if v.Len() != 1 {
			return n.bad(ArrayDoc, "fill_value", "expected one value, found %s", clip(v))
		}
		v = v.First()
	}
	if v == "" || v.Kind() == jsontext.Null {
		if a.Layout == LayoutPure {
			a.Fill, a.HasFill = nullFill(a.DType)
		}
		return nil
	}
	value, ok := n.fillOf(a, v)
	if !ok {
		return n.bad(ArrayDoc, "fill_value", "%s is not a value of type %s", clip(v), a.DType)
	}
	a.Fill, a.HasFill = value, true
	return nil
}

// nullIsText reports whether null means the empty string in pure Zarr. It returns true
// for byte strings: they end at the first zero byte, and null is the only form of the
// empty string that all readers accept.
func nullIsText(t dtype.Type) bool { return t.Kind == dtype.Char || t.Kind == dtype.Bytes }

// nullFill returns the fill value that null means in pure Zarr: the empty string, or
// not-a-time, as zarr-python reads it. ok is false for types without such a value.
func nullFill(t dtype.Type) (b []byte, ok bool) {
	switch {
	case nullIsText(t):
		return make([]byte, t.Size), true
	case t.Kind == dtype.Datetime, t.Kind == dtype.Timedelta:
		return encoded(t, []int64{math.MinInt64}, true)
	}
	return nil, false
}

// fillOf returns the bytes of one element; ok is false if v is not a valid value.
func (n *node) fillOf(a *Array, v jsontext.Value) (b []byte, ok bool) {
	switch t := a.DType; t.Kind {
	case dtype.Bool:
		k, ok := intOf(v)
		return []byte{byte(k)}, ok && k|1 == 1
	case dtype.Int, dtype.Uint, dtype.Datetime, dtype.Timedelta:
		if b, ok := n.fillInt(t, v); ok {
			return b, true
		}
		return fillBits(t, v)
	case dtype.Float:
		f, ok := floatOf(v, max(8*t.Size, 32))
		if b, ok := encoded(t, []float64{f}, ok); ok {
			return b, true
		}
		return fillBits(t, v)
	case dtype.Complex:
		return fillComplex(t, v)
	case dtype.Char, dtype.Bytes:
		return fillText(t, v, n.v3 || !a.Layout.NCZarr() && !n.plainFill(v))
	case dtype.Unicode:
		text, ok := fillString(v)
		return encoded(t, []string{text}, ok)
	case dtype.Raw:
		return fillRaw(t, v)
	case dtype.String:
		text, ok := fillString(v)
		return []byte(text), ok
	case dtype.VlenBytes:
		text, ok := fillString(v)
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b, ok
		}
		return []byte(text), ok
	}
	return nil, false
}

// fillBits parses a number given by its bits, as newer writers do for values that JSON
// cannot express: floats in hexadecimal ("0x7fc00000"), or any number as the base64 of
// its stored bytes.
//
// Source: Zarr v3, "Fill value representation"; xarray, encoding of _FillValue.
func fillBits(t dtype.Type, v jsontext.Value) ([]byte, bool) {
	if v.Kind() != jsontext.String {
		return nil, false
	}
	digits, hex := strings.CutPrefix(v.Text(), "0x")
	if !hex || t.Kind != dtype.Float {
		b, err := base64.StdEncoding.DecodeString(v.Text())
		return b, err == nil && len(b) == t.Size
	}
	bits, err := strconv.ParseUint(digits, 16, 8*t.Size)
	if err != nil || len(digits) != 2*t.Size {
		return nil, false
	}
	b := binary.BigEndian.AppendUint64(nil, bits)[8-t.Size:]
	if t.Order == dtype.Little {
		slices.Reverse(b)
	}
	return b, true
}

// encoded returns the stored bytes of the single value in slice. It returns false if ok
// is false.
func encoded(t dtype.Type, slice any, ok bool) ([]byte, bool) {
	if !ok {
		return nil, false
	}
	b, err := dtype.FillBytes(t, slice)
	return b, err == nil
}

// fillInt parses an integer exactly. It truncates a fraction with a warning, as netcdf-c
// and NumPy do. For times, "NaT" is the smallest integer.
func (n *node) fillInt(t dtype.Type, v jsontext.Value) ([]byte, bool) {
	if t.Kind != dtype.Int && t.Kind != dtype.Uint && v.Text() == "NaT" {
		return encoded(t, []int64{math.MinInt64}, true)
	}
	if k, ok := intOf(v); ok {
		return encoded(t, []int64{k}, true)
	}
	if k, ok := uintOf(v); ok {
		return encoded(t, []uint64{k}, true)
	}
	f, ok := floatOf(v, 64)
	b, ok := encoded(t, []float64{f}, ok)
	if ok {
		n.warn("%s: fill_value: %s is truncated to an integer", n.key(ArrayDoc), clip(v))
	}
	return b, ok
}

// fillComplex parses [re, im], or a number without an imaginary part.
func fillComplex(t dtype.Type, v jsontext.Value) ([]byte, bool) {
	half := dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}
	b := make([]byte, 0, t.Size)
	ok := each(v, func(e jsontext.Value) bool {
		f, ok := floatOf(e, 8*half.Size)
		part, ok := encoded(half, []float64{f}, ok)
		if !ok {
			part, ok = fillBits(half, e)
		}
		b = append(b, part...)
		return ok && len(b) <= t.Size
	})
	if len(b) == half.Size {
		b = append(b, make([]byte, half.Size)...)
	}
	return b, ok && len(b) == t.Size
}

// fillString parses a string. The number 0 is the empty string, as NumPy writes it.
func fillString(v jsontext.Value) (string, bool) {
	if k, ok := v.Int64(); ok && k == 0 {
		return "", true
	}
	return v.Text(), v.Kind() == jsontext.String
}

// plainFill reports whether the attribute _FillValue is the same string as v.
func (n *node) plainFill(v jsontext.Value) bool {
	attrs, _ := n.attrsDoc()
	at := attrs.get(fillAttr)
	if at.Kind() == jsontext.Array && at.Len() == 1 {
		at = at.First()
	}
	return at.Kind() == jsontext.String && at.Text() == v.Text()
}

// compareFill warns if the attribute _FillValue and fill_value are different numbers.
// Absent chunks are read as fill_value, so readers that rely on _FillValue would treat
// them as data.
func (n *node) compareFill(a *Array) {
	i := slices.IndexFunc(a.Attrs, func(at Attr) bool { return at.Name == fillAttr })
	if i < 0 || !a.HasFill || a.Attrs[i].Type != a.DType.NC() {
		return
	}
	switch a.DType.Kind {
	case dtype.Int, dtype.Uint, dtype.Float:
	default:
		return
	}
	attr, err := dtype.FillBytes(a.DType, a.Attrs[i].Value)
	if err != nil || bytes.Equal(attr, a.Fill) || isNaN(a.DType, attr) && isNaN(a.DType, a.Fill) {
		return
	}
	_, doc := n.attrsDoc()
	n.warn("%s: %s differs from fill_value in %s: missing chunks are read as fill_value", n.key(doc), fillAttr, n.key(ArrayDoc))
}

// isNaN reports whether the bytes of one element are a NaN.
func isNaN(t dtype.Type, b []byte) bool {
	out := []float64{0}
	return t.Kind == dtype.Float && dtype.Decode(out, b, t) == nil && math.IsNaN(out[0])
}

// fillText parses a fixed-length byte string. coded means that the string is base64
// rather than plain.
func fillText(t dtype.Type, v jsontext.Value, coded bool) ([]byte, bool) {
	text, ok := fillString(v)
	if !ok {
		return nil, false
	}
	plain := strings.TrimRight(text, "\x00")
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(decoded) <= t.Size && (coded || len(plain) > t.Size) {
		plain = string(decoded)
	}
	if len(plain) > t.Size {
		return nil, false
	}
	b := make([]byte, t.Size)
	copy(b, plain)
	return b, true
}

// fillRaw parses base64. 0 and "" mean zero bytes.
func fillRaw(t dtype.Type, v jsontext.Value) ([]byte, bool) {
	text, ok := fillString(v)
	b, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(b) != t.Size && len(b) != 0 {
		return nil, false
	}
	return append(b, make([]byte, t.Size-len(b))...), true
}

// writeFill writes fill_value.
func writeFill(w *jsontext.Writer, a *Array, pure bool) error {
	if !a.HasFill || pure && nullIsText(a.DType) && len(strings.Trim(string(a.Fill), "\x00")) == 0 {
		w.Raw("null")
		return nil
	}
	t := a.DType
	if t.Fixed() && len(a.Fill) != t.Size {
		return invalid("a fill value of %d bytes does not fit type %s", len(a.Fill), t)
	}
	switch t.Kind {
	case dtype.Bool:
		w.Raw(map[bool]jsontext.Value{false: "false", true: "true"}[a.Fill[0] != 0])
	case dtype.Raw:
		w.String(base64.StdEncoding.EncodeToString(a.Fill))
	case dtype.Char, dtype.Bytes:
		text := strings.TrimRight(string(a.Fill), "\x00")
		if pure {
			text = base64.StdEncoding.EncodeToString(a.Fill)
		}
		w.String(text)
	case dtype.String:
		w.String(string(a.Fill))
	case dtype.VlenBytes:
		w.String(base64.StdEncoding.EncodeToString(a.Fill))
	case dtype.Unicode:
		text := make([]string, 1)
		if err := dtype.Decode(text, a.Fill, t); err != nil {
			return err
		}
		if !utf8.ValidString(text[0]) {
			return invalid("fill value %q is not valid UTF-8", text[0])
		}
		w.String(text[0])
	case dtype.Complex:
		w.Open('[')
		err := writeNumbers(w, dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}, a.Fill)
		w.Close()
		return err
	default:
		return writeNumbers(w, t, a.Fill)
	}
	return nil
}

// writeNumbers writes the stored numbers in b, one after the other.
func writeNumbers(w *jsontext.Writer, t dtype.Type, b []byte) error {
	values := dtype.MakeSlice(t.NC(), len(b)/t.Size)
	if err := dtype.Decode(values, b, t); err != nil {
		return err
	}
	appendValues(w, values, false)
	return nil
}
