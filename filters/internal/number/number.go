// Package number reads and writes single elements of any numeric type, for
// the filters that compute with elements. It stands below them and above
// core/dtype.
package number

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// OK reports whether elements of t can be computed with: bool, integers,
// floats, and datetimes as the integers they are stored as.
func OK(t dtype.Type) bool {
	switch t.Kind {
	case dtype.Bool, dtype.Int, dtype.Uint, dtype.Float, dtype.Datetime, dtype.Timedelta:
		return true
	}
	return false
}

// Parse reads the numpy spelling of a type that OK accepts.
func Parse(text string) (dtype.Type, bool) {
	t, err := dtype.Parse(text)
	return t, err == nil && OK(t)
}

// IsFloat reports whether t is a float.
func IsFloat(t dtype.Type) bool { return t.Kind == dtype.Float }

// Bits loads the element at the start of b as it is stored, without its sign
// extended.
func Bits(t dtype.Type, b []byte) uint64 {
	big := t.Order == dtype.Big
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
func PutBits(t dtype.Type, b []byte, v uint64) {
	big := t.Order == dtype.Big
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

// Int loads an integer; an unsigned one of 64 bits keeps its bits.
func Int(t dtype.Type, b []byte) int64 {
	v := Bits(t, b)
	if t.Kind == dtype.Uint || t.Kind == dtype.Bool {
		return int64(v)
	}
	shift := 64 - 8*uint(t.Size)
	return int64(v<<shift) >> shift
}

// Float loads any element as a float64.
func Float(t dtype.Type, b []byte) float64 {
	if !IsFloat(t) {
		if t.Kind == dtype.Uint {
			return float64(Bits(t, b))
		}
		return float64(Int(t, b))
	}
	v := Bits(t, b)
	switch t.Size {
	case 2:
		return fromHalf(uint16(v))
	case 4:
		return Widen(uint32(v))
	}
	return math.Float64frombits(v)
}

// Widen returns the float32 of these bits as a float64. A conversion by the
// processor makes every NaN a quiet one; Widen keeps all its bits, and
// [Narrow] gives them back.
func Widen(bits uint32) float64 {
	f := math.Float32frombits(bits)
	if f == f { // not a NaN
		return float64(f)
	}
	return math.Float64frombits(uint64(bits>>31)<<63 | 0x7FF<<52 | uint64(bits&0x7FFFFF)<<29)
}

// Narrow returns the bits of f rounded to a float32; of a NaN the first bits
// of its payload, or those of the quiet NaN where they are all zero.
func Narrow(f float64) uint32 {
	if f == f { // not a NaN
		return math.Float32bits(float32(f))
	}
	bits := math.Float64bits(f)
	payload := uint32(bits>>29) & 0x7FFFFF
	if payload == 0 {
		payload = 1 << 22
	}
	return uint32(bits>>63)<<31 | 0xFF<<23 | payload
}

// PutFloat stores f in type t: rounded to the nearest for floats, with the
// fraction cut off for integers. An integer that cannot hold it gets the
// nearest one that it can, 0 for NaN.
func PutFloat(t dtype.Type, b []byte, f float64) {
	switch {
	case t.Kind == dtype.Bool:
		v := uint64(0)
		if f != 0 {
			v = 1
		}
		PutBits(t, b, v)
	case !IsFloat(t):
		PutBits(t, b, clamp(t, f))
	case t.Size == 2:
		PutBits(t, b, uint64(toHalf(f)))
	case t.Size == 4:
		PutBits(t, b, uint64(Narrow(f)))
	default:
		PutBits(t, b, math.Float64bits(f))
	}
}

func clamp(t dtype.Type, f float64) uint64 {
	n := 8 * uint(t.Size)
	if t.Kind == dtype.Uint {
		switch {
		case !(f > 0): // NaN too
			return 0
		case f >= math.Ldexp(1, int(n)):
			return math.MaxUint64
		}
		return uint64(f)
	}
	switch top := math.Ldexp(1, int(n)-1); {
	case f != f: // NaN
		return 0
	case f >= top:
		return 1<<(n-1) - 1
	case f < -top:
		return 1 << (n - 1)
	}
	return uint64(int64(f))
}

// Cast stores the element of type from at src as one of type to at dst, as
// numpy's astype does; bits that do not fit in an integer are cut off.
func Cast(to dtype.Type, dst []byte, from dtype.Type, src []byte) {
	switch {
	case to == from:
		copy(dst[:to.Size], src)
	case IsFloat(to) || IsFloat(from):
		PutFloat(to, dst, Float(from, src))
	case to.Kind == dtype.Bool:
		v := Int(from, src)
		if v != 0 {
			v = 1
		}
		PutBits(to, dst, uint64(v))
	default:
		PutBits(to, dst, uint64(Int(from, src)))
	}
}

func fromHalf(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.Float64frombits(uint64(h)>>15<<63 | 0x7FF<<52 | uint64(h&1023)<<42)
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// toHalf rounds to the nearest binary16, ties to even; NaN keeps its sign and
// the upper bits of its payload, as in numpy.
func toHalf(f float64) uint16 {
	sign := uint16(math.Float64bits(f) >> 48 & 0x8000)
	f = math.Abs(f)
	switch {
	case f != f: // NaN
		return sign | 0x7C00 | max(uint16(math.Float64bits(f)>>42&1023), 1)
	case f >= 65520: // half way above the largest
		return sign | 0x7C00
	case f < math.Ldexp(1, -14): // subnormal; 1024 carries into the exponent
		return sign | uint16(math.RoundToEven(math.Ldexp(f, 24)))
	}
	m, e := math.Frexp(f) // m in [0.5, 1)
	frac := uint16(math.RoundToEven(math.Ldexp(m, 11)))
	return sign | (uint16(e+13)<<10 + frac)
}
