package dtype

import (
	"encoding/binary"
	"math"
)

// Numeric reports whether t is numeric: bool, integer, float, or a datetime or
// timedelta, which are stored as integers.
func (t Type) Numeric() bool {
	switch t.Kind {
	case Bool, Int, Uint, Float, Datetime, Timedelta:
		return t.sizeOK()
	}
	return false
}

// Convert converts src, whose elements have type from, to type to, and stores the result
// in dst. It follows NumPy's astype: floats are truncated when converted to integers and
// rounded when converted to smaller floats; any value except zero becomes true when
// converted to bool. Convert returns the index of the first value that does not fit, or
// -1. Both types must be numeric, and dst must have room for all elements of src.
func Convert(dst []byte, to Type, src []byte, from Type) int {
	n := len(src) / from.Size
	dst = dst[:n*to.Size]
	switch {
	case to == from:
		copy(dst, src)
		return -1
	case to.Kind == Bool:
		for i := range n {
			dst[i] = from.truth(src[i*from.Size:])
		}
		return -1
	case from.Kind == Float:
		return recode[float64](dst, to, src, from)
	case from.Kind == Bool, from.Kind == Uint:
		return recode[uint64](dst, to, src, from.stored())
	}
	return recode[int64](dst, to, src, from)
}

// recode implements Convert with the intermediate type W, which can represent all values
// of from.
func recode[W number](dst []byte, to Type, src []byte, from Type) int {
	var buf [block]W
	for at, n := 0, len(src)/from.Size; at < n; at += block {
		b := buf[:min(block, n-at)]
		if i := decodeNumbers(b, src[at*from.Size:], from); i >= 0 {
			return at + i
		}
		if i := encodeNumbers(dst[at*to.Size:][:len(b)*to.Size], to, b); i >= 0 {
			return at + i
		}
	}
	return -1
}

// stored returns the type of the stored bytes: uint8 for bool, and otherwise t.
func (t Type) stored() Type {
	if t.Kind == Bool {
		return Type{Kind: Uint, Size: 1}
	}
	return t
}

// truth returns 0 if the element is zero, and otherwise 1. NaN is not zero.
func (t Type) truth(e []byte) byte {
	v := t.Bits(e)
	if t.Kind == Float {
		v <<= 65 - 8*uint(t.Size) // shifts out the sign bit
	}
	if v != 0 {
		return 1
	}
	return 0
}

// Floats decodes the first len(dst) elements of src. 64-bit integers are rounded to the
// nearest float.
func (t Type) Floats(dst []float64, src []byte) {
	decodeNumbers(dst, src[:len(dst)*t.Size], t.stored()) // cannot fail: every value is in the range of a float64
}

// PutFloats stores src in dst. Values are rounded to the nearest float or truncated to
// an integer. A bool is true for any value except 0, as in NumPy. PutFloats
// returns the index of the first value that t cannot represent (NaN in an integer, a
// finite value out of range), or -1.
func (t Type) PutFloats(dst []byte, src []float64) int {
	if t.Kind == Bool {
		for i, v := range src {
			dst[i] = 0
			if v != 0 {
				dst[i] = 1
			}
		}
		return -1
	}
	return encodeNumbers(dst[:len(src)*t.Size], t, src)
}

// Value returns the element at the start of e as a Go number for use in messages.
func (t Type) Value(e []byte) any {
	switch {
	case t.Kind == Float && t.Size == 4:
		return float32(t.Float(e))
	case t.Kind == Float:
		return t.Float(e)
	case t.Kind == Uint || t.Kind == Bool:
		return t.Bits(e)
	}
	return t.Int(e)
}

// Bits returns the bits of the element at the start of b without sign extension.
func (t Type) Bits(b []byte) uint64 {
	big := t.Order == Big
	switch {
	case t.Size == 1:
		return uint64(b[0])
	case t.Size == 2 && big:
		return uint64(binary.BigEndian.Uint16(b))
	case t.Size == 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case t.Size == 4 && big:
		return uint64(binary.BigEndian.Uint32(b))
	case t.Size == 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// PutBits stores the low bits of v as an element of type t.
func (t Type) PutBits(b []byte, v uint64) {
	big := t.Order == Big
	switch {
	case t.Size == 1:
		b[0] = byte(v)
	case t.Size == 2 && big:
		binary.BigEndian.PutUint16(b, uint16(v))
	case t.Size == 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case t.Size == 4 && big:
		binary.BigEndian.PutUint32(b, uint32(v))
	case t.Size == 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	case big:
		binary.BigEndian.PutUint64(b, v)
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// Int returns the element as an integer. 64-bit unsigned values keep their bits.
func (t Type) Int(b []byte) int64 {
	v := t.Bits(b)
	if t.Kind == Uint || t.Kind == Bool {
		return int64(v)
	}
	shift := 64 - 8*uint(t.Size)
	return int64(v<<shift) >> shift
}

// Float returns the element as a float64.
func (t Type) Float(b []byte) float64 {
	if t.Kind != Float {
		if t.Kind == Uint {
			return float64(t.Bits(b))
		}
		return float64(t.Int(b))
	}
	v := t.Bits(b)
	switch t.Size {
	case 2:
		return fromHalf(uint16(v))
	case 4:
		return Widen(uint32(v))
	}
	return math.Float64frombits(v)
}

// Widen converts the bits of a float32 to a float64. It keeps all bits of a NaN, whereas
// a Go conversion may change a signaling NaN to a quiet one. [Narrow] restores them.
func Widen(bits uint32) float64 {
	if f := float64(math.Float32frombits(bits)); !math.IsNaN(f) {
		return f
	}
	return math.Float64frombits(uint64(bits>>31)<<63 | 0x7FF<<52 | uint64(bits&0x7FFFFF)<<29)
}

// Narrow returns the bits of f rounded to a float32. A NaN keeps the upper bits of its
// payload, or becomes a quiet NaN if those bits are all zero.
func Narrow(f float64) uint32 {
	if !math.IsNaN(f) {
		return math.Float32bits(float32(f))
	}
	bits := math.Float64bits(f)
	payload := uint32(bits>>29) & 0x7FFFFF
	if payload == 0 {
		payload = 1 << 22
	}
	return uint32(bits>>63)<<31 | 0xFF<<23 | payload
}

// PutFloat stores f as type t. If t is a float, f is rounded to the nearest value. If t
// is an integer, f is truncated and clamped to the range of t; NaN becomes 0.
func (t Type) PutFloat(b []byte, f float64) {
	switch {
	case t.Kind == Bool && f != 0:
		b[0] = 1
	case t.Kind != Float:
		t.PutBits(b, t.clamp(f))
	case t.Size == 2:
		t.PutBits(b, uint64(toHalf(f)))
	case t.Size == 4:
		t.PutBits(b, uint64(Narrow(f)))
	default:
		t.PutBits(b, math.Float64bits(f))
	}
}

func (t Type) clamp(f float64) uint64 {
	n := 8 * uint(t.Size)
	if t.Kind == Uint {
		switch {
		case !(f > 0): // f may also be NaN
			return 0
		case f >= math.Ldexp(1, int(n)):
			return math.MaxUint64
		}
		return uint64(f)
	}
	switch top := math.Ldexp(1, int(n)-1); {
	case math.IsNaN(f):
		return 0
	case f >= top:
		return 1<<(n-1) - 1
	case f < -top:
		return 1 << (n - 1)
	}
	return uint64(int64(f))
}

func fromHalf(h uint16) float64 {
	sign, exp, frac := uint64(h>>15)<<63, uint64(h>>10&31), uint64(h&1023)
	switch exp {
	case 0:
		return math.Float64frombits(sign | math.Float64bits(float64(frac)*0x1p-24))
	case 31: // infinity or NaN
		exp = 2047 - 1008
	}
	return math.Float64frombits(sign | (exp+1008)<<52 | frac<<42)
}

// toHalf rounds f to the nearest binary16, with ties to even. A NaN keeps its sign and
// the upper bits of its payload, as in NumPy.
func toHalf(f float64) uint16 {
	sign := uint16(math.Float64bits(f) >> 48 & 0x8000)
	f = math.Abs(f)
	switch {
	case math.IsNaN(f):
		return sign | 0x7C00 | max(uint16(math.Float64bits(f)>>42&1023), 1)
	case f >= 65520: // halfway between the largest value and the next power of two
		return sign | 0x7C00
	case f < math.Ldexp(1, -14): // subnormal; a result of 1024 carries into the exponent
		return sign | uint16(math.RoundToEven(math.Ldexp(f, 24)))
	}
	m, e := math.Frexp(f) // m in [0.5, 1)
	frac := uint16(math.RoundToEven(math.Ldexp(m, 11)))
	return sign | (uint16(e+13)<<10 + frac)
}
