package dtype

import (
	"math"
	"unsafe"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// block is the number of elements converted through one stack buffer.
const block = 256

// Decode converts stored elements of type t to the typed slice dst. dst has one value per
// element, so len(src) must be t.Size times len(dst). For Raw, dst has t.Size values per
// element.
//
// Numbers, bools (0 and 1), and datetimes and timedeltas (their counts) convert to any of
// the ten numeric slices. Integers convert exactly; floats are truncated toward zero when
// converted to integers; integers are rounded when converted to floats. Char and Raw
// elements are copied to []uint8. Bytes and Unicode convert to []string without trailing
// NULs; UCS-4 becomes UTF-8, and Bytes are not reencoded. If type, size and byte order
// are equal, the values are copied as one block.
//
// Errors: ErrInvalid for mismatched lengths; ErrBadType for strings to numbers, numbers
// to strings, and complex and variable-length types; ErrConvert for a value that dst
// cannot represent (NaN to integer, overflow, invalid code point). The text of
// ErrConvert contains the index and value of the first such element; dst is then partly
// filled.
//
// Source: netCDF-C, "Type conversion" (NC_ERANGE).
func Decode(dst any, src []byte, t Type) error {
	if b, vt, ok := View(dst); ok && vt == t.WithOrder(Native) && len(b) == len(src) {
		copy(b, src)
		if t.Order != Native {
			SwapBytes(b, t.Width())
		}
		return nil
	}
	if err := checkLen(dst, len(src), t); err != nil {
		return err
	}
	switch d := dst.(type) {
	case []int8:
		return decodeInto(d, src, t)
	case []uint8:
		if t.Kind == Char || t.Kind == Raw {
			copy(d, src)
			return nil
		}
		return decodeInto(d, src, t)
	case []int16:
		return decodeInto(d, src, t)
	case []uint16:
		return decodeInto(d, src, t)
	case []int32:
		return decodeInto(d, src, t)
	case []uint32:
		return decodeInto(d, src, t)
	case []int64:
		return decodeInto(d, src, t)
	case []uint64:
		return decodeInto(d, src, t)
	case []float32:
		return decodeInto(d, src, t)
	case []float64:
		return decodeInto(d, src, t)
	case []string:
		return decodeText(d, src, t)
	}
	return badType("decode", t, dst)
}

// Encode is the reverse of [Decode]: it converts the typed slice src to stored elements
// of type t in dst. Bool elements accept only 0 and 1. The error is ErrConvert for a
// string that does not fit in t.Size bytes or that ends in NUL, which Decode would
// remove. The other errors are the same as for Decode.
func Encode(dst []byte, t Type, src any) error {
	if b, vt, ok := View(src); ok && vt == t.WithOrder(Native) && len(b) == len(dst) {
		copy(dst, b)
		if t.Order != Native {
			SwapBytes(dst, t.Width())
		}
		return nil
	}
	if err := checkLen(src, len(dst), t); err != nil {
		return err
	}
	switch s := src.(type) {
	case []int8:
		return encodeFrom(dst, t, s)
	case []uint8:
		if t.Kind == Char || t.Kind == Raw {
			copy(dst, s)
			return nil
		}
		return encodeFrom(dst, t, s)
	case []int16:
		return encodeFrom(dst, t, s)
	case []uint16:
		return encodeFrom(dst, t, s)
	case []int32:
		return encodeFrom(dst, t, s)
	case []uint32:
		return encodeFrom(dst, t, s)
	case []int64:
		return encodeFrom(dst, t, s)
	case []uint64:
		return encodeFrom(dst, t, s)
	case []float32:
		return encodeFrom(dst, t, s)
	case []float64:
		return encodeFrom(dst, t, s)
	case []string:
		return encodeText(dst, t, s)
	}
	return badType("encode", t, src)
}

func badType(op string, t Type, slice any) error {
	return ncerr.Errorf(ncerr.ErrBadType, op, "", "cannot convert between %s and %T", t, slice)
}

// checkLen checks that n stored bytes hold exactly the elements of slice.
func checkLen(slice any, n int, t Type) error {
	if _, ok := TypeOf(slice); !ok || !t.Fixed() {
		return badType("convert", t, slice)
	}
	if _, text := slice.([]string); text && t.Kind == Raw {
		return badType("convert", t, slice)
	}
	want := Len(slice)
	if t.Kind != Raw {
		if want > math.MaxInt/t.Size {
			return ncerr.Errorf(ncerr.ErrLimit, "convert", "", "%d elements of %d bytes exceed the address space", want, t.Size)
		}
		want *= t.Size
	}
	if n != want {
		return ncerr.Errorf(ncerr.ErrInvalid, "convert", "", "%d bytes is the wrong length for %d values of type %s", n, Len(slice), t)
	}
	return nil
}

// badValue returns the error for element i, whose value v does not fit in type to.
func badValue(i int, v any, to string) error {
	return ncerr.Errorf(ncerr.ErrConvert, "convert", "", "element %d: %v does not fit in %s", i, v, to)
}

// decodeInto implements Decode for a slice of numbers.
func decodeInto[D number](dst []D, src []byte, t Type) error {
	if !t.Numeric() {
		return badType("decode", t, dst)
	}
	if i := decodeNumbers(dst, src, t); i >= 0 {
		nc, _ := TypeOf(dst)
		return badValue(i, t.Value(src[i*t.Size:]), nc.String())
	}
	return nil
}

// encodeFrom implements Encode for a slice of numbers.
func encodeFrom[S number](dst []byte, t Type, src []S) error {
	if !t.Numeric() {
		return badType("encode", t, src)
	}
	if i := encodeNumbers(dst, t, src); i >= 0 {
		name := t.String()
		if nc := t.NC(); nc.Valid() && nc.Type(t.Order) == t {
			name = nc.String()
		}
		return badValue(i, src[i], name)
	}
	return nil
}

// decodeNumbers dispatches on the type of the stored elements. Like all functions
// below it in this file, it returns the index of the first value that does not fit, or -1.
func decodeNumbers[D number](dst []D, src []byte, t Type) int {
	switch {
	case t.Kind == Bool:
		return decodeBool(dst, src)
	case t.Kind == Float && t.Size == 2:
		return decodeHalf(dst, src, t)
	case t.Kind == Float && t.Size == 4:
		return decodeAs[D, float32](dst, src, t)
	case t.Kind == Float:
		return decodeAs[D, float64](dst, src, t)
	case t.Kind == Uint && t.Size == 1:
		return decodeAs[D, uint8](dst, src, t)
	case t.Kind == Uint && t.Size == 2:
		return decodeAs[D, uint16](dst, src, t)
	case t.Kind == Uint && t.Size == 4:
		return decodeAs[D, uint32](dst, src, t)
	case t.Kind == Uint:
		return decodeAs[D, uint64](dst, src, t)
	case t.Size == 1:
		return decodeAs[D, int8](dst, src, t)
	case t.Size == 2:
		return decodeAs[D, int16](dst, src, t)
	case t.Size == 4:
		return decodeAs[D, int32](dst, src, t)
	}
	return decodeAs[D, int64](dst, src, t)
}

// decodeAs converts elements of Go type S. It converts directly from src if the alignment
// and byte order of src allow, and otherwise through a small buffer.
func decodeAs[D, S number](dst []D, src []byte, t Type) int {
	if sameType[S, D]() {
		b := bytesOf(dst)
		copy(b, src)
		if t.Order != Native {
			SwapBytes(b, t.Width())
		}
		return -1
	}
	if t.Order == Native || t.Order == OrderNone {
		if s, ok := aligned[S](src); ok {
			return convert(dst, s[:len(dst)])
		}
	}
	var buf [block]S
	size := int(unsafe.Sizeof(buf[0]))
	for at := 0; at < len(dst); at += block {
		n := min(block, len(dst)-at)
		b := bytesOf(buf[:n])
		copy(b, src[at*size:])
		if t.Order != Native {
			SwapBytes(b, t.Width())
		}
		if i := convert(dst[at:], buf[:n]); i >= 0 {
			return at + i
		}
	}
	return -1
}

func decodeBool[D number](dst []D, src []byte) int {
	for i := range dst {
		if src[i] > 1 {
			return i
		}
		dst[i] = D(src[i])
	}
	return -1
}

func decodeHalf[D number](dst []D, src []byte, t Type) int {
	var buf [1]float64
	for i := range dst {
		buf[0] = t.Float(src[2*i:])
		if convert(dst[i:], buf[:]) >= 0 {
			return i
		}
	}
	return -1
}

// encodeNumbers dispatches on the type of the elements to store.
func encodeNumbers[S number](dst []byte, t Type, src []S) int {
	switch {
	case t.Kind == Bool:
		return encodeBool(dst, src)
	case t.Kind == Float && t.Size == 2:
		return encodeHalf(dst, t, src)
	case t.Kind == Float && t.Size == 4:
		return encodeAs[float32](dst, t, src)
	case t.Kind == Float:
		return encodeAs[float64](dst, t, src)
	case t.Kind == Uint && t.Size == 1:
		return encodeAs[uint8](dst, t, src)
	case t.Kind == Uint && t.Size == 2:
		return encodeAs[uint16](dst, t, src)
	case t.Kind == Uint && t.Size == 4:
		return encodeAs[uint32](dst, t, src)
	case t.Kind == Uint:
		return encodeAs[uint64](dst, t, src)
	case t.Size == 1:
		return encodeAs[int8](dst, t, src)
	case t.Size == 2:
		return encodeAs[int16](dst, t, src)
	case t.Size == 4:
		return encodeAs[int32](dst, t, src)
	}
	return encodeAs[int64](dst, t, src)
}

// encodeAs stores elements of Go type D. It converts directly into dst if the alignment
// and byte order of dst allow, and otherwise through a small buffer.
func encodeAs[D, S number](dst []byte, t Type, src []S) int {
	if sameType[S, D]() {
		n := copy(dst, bytesOf(src))
		if t.Order != Native {
			SwapBytes(dst[:n], t.Width())
		}
		return -1
	}
	if t.Order == Native || t.Order == OrderNone {
		if d, ok := aligned[D](dst); ok {
			return convert(d, src)
		}
	}
	var buf [block]D
	size := int(unsafe.Sizeof(buf[0]))
	for at := 0; at < len(src); at += block {
		n := min(block, len(src)-at)
		if i := convert(buf[:n], src[at:at+n]); i >= 0 {
			return at + i
		}
		b := bytesOf(buf[:n])
		if t.Order != Native {
			SwapBytes(b, t.Width())
		}
		copy(dst[at*size:], b)
	}
	return -1
}

func encodeBool[S number](dst []byte, src []S) int {
	for i, v := range src {
		if v != 0 && v != 1 {
			return i
		}
		dst[i] = byte(v)
	}
	return -1
}

func encodeHalf[S number](dst []byte, t Type, src []S) int {
	for i, v := range src {
		f := float64(v)
		if math.IsNaN(f) && unsafe.Sizeof(v) == 4 { // a float32 NaN
			f = Widen(*(*uint32)(unsafe.Pointer(&src[i])))
		}
		h := toHalf(f)
		if h&0x7fff == 0x7c00 && !math.IsInf(f, 0) {
			return i
		}
		t.PutBits(dst[2*i:], uint64(h))
	}
	return -1
}
