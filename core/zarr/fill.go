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
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// fill reads fill_value: null or missing is none. An array of one value stands
// for the value. Text of single bytes is base64 in pure Zarr, as its
// specification says, and plain in NCZarr and where _FillValue beside it is the
// same text, as netCDF-C writes both; each is tried as the other when it does
// not fit.
//
// Source: Zarr v2, "Fill value encoding"; netcdf-c libnczarr/zsync.c.
func (n *node) fill(a *Array, v jsontext.Value) error {
	if v.Kind() == jsontext.Array && a.DType.Kind != dtype.Complex {
		if v.Len() != 1 {
			return n.bad(ArrayDoc, "fill_value", "want one value, found %s", clip(v))
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
		return n.bad(ArrayDoc, "fill_value", "%s is no value of type %s", clip(v), a.DType)
	}
	a.Fill, a.HasFill = value, true
	return nil
}

// nullIsText reports whether null stands for the empty text: it does in pure
// Zarr, where zeros are just that, and where it is the one spelling of the
// empty text that all readers of text of single bytes take.
func nullIsText(t dtype.Type) bool { return t.Kind == dtype.Char || t.Kind == dtype.Bytes }

// nullFill gives what null stands for in pure Zarr, if it is not none: the empty
// text, and not-a-time, which zarr-python reads.
func nullFill(t dtype.Type) (b []byte, ok bool) {
	switch {
	case nullIsText(t):
		return make([]byte, t.Size), true
	case t.Kind == dtype.Datetime, t.Kind == dtype.Timedelta:
		return encoded(t, []int64{math.MinInt64}, true)
	}
	return nil, false
}

// fillOf gives the bytes of one element; ok is false when v is none.
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

// fillBits reads numbers that are told by their bits, as newer writers do where
// JSON has no words: floats in hexadecimal ("0x7fc00000"), any number in base64
// of its stored bytes.
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

// encoded makes the bytes of the one value in slice.
func encoded(t dtype.Type, slice any, ok bool) ([]byte, bool) {
	if !ok {
		return nil, false
	}
	b, err := dtype.FillBytes(t, slice)
	return b, err == nil
}

// fillInt reads an integer exactly; a fraction is cut off with a warning, as
// the reference and NumPy do; "NaT" is the smallest number.
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
		n.warn("%s: fill_value: %s cut to a whole number", n.key(ArrayDoc), clip(v))
	}
	return b, ok
}

// fillComplex reads [re, im], or a number without imaginary part.
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

// fillString reads text; 0 stands for the empty text, as NumPy writes it.
func fillString(v jsontext.Value) (string, bool) {
	if k, ok := v.Int64(); ok && k == 0 {
		return "", true
	}
	return v.Text(), v.Kind() == jsontext.String
}

// plainFill reports whether the attribute _FillValue is the same text as v.
func (n *node) plainFill(v jsontext.Value) bool {
	attrs, _ := n.attrsDoc()
	at := attrs.get(fillAttr)
	if at.Kind() == jsontext.Array && at.Len() == 1 {
		at = at.First()
	}
	return at.Kind() == jsontext.String && at.Text() == v.Text()
}

// compareFill warns where the attribute _FillValue is another number than
// fill_value: chunks that are not there have the latter, and readers that look
// for the former would take it for data.
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
	n.warn("%s: %s is not the fill_value of %s: chunks that are not there read as fill_value", n.key(doc), fillAttr, n.key(ArrayDoc))
}

// isNaN reports whether the bytes of one element are not a number.
func isNaN(t dtype.Type, b []byte) bool {
	out := []float64{0}
	return t.Kind == dtype.Float && dtype.Decode(out, b, t) == nil && math.IsNaN(out[0])
}

// fillText reads fixed-length text of single bytes; coded says that it is base64
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

// fillRaw reads base64; 0 and "" stand for zeros.
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
		return invalid("fill value of %d bytes for type %s", len(a.Fill), t)
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
			return invalid("fill value %q", text[0])
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

// writeNumbers writes stored numbers, one after the other.
func writeNumbers(w *jsontext.Writer, t dtype.Type, b []byte) error {
	values := dtype.MakeSlice(t.NC(), len(b)/t.Size)
	if err := dtype.Decode(values, b, t); err != nil {
		return err
	}
	appendValues(w, values, false)
	return nil
}
