package dtype

import (
	"math"
	"unsafe"
)

// isFloat reports whether T is a floating type.
func isFloat[T number]() bool { return T(1)/T(2) != 0 }

// isSigned reports whether T has negative values.
func isSigned[T number]() bool { var z T; return z-1 < 0 }

// sameType reports whether S and D are one and the same numeric type.
func sameType[S, D number]() bool {
	var s S
	var d D
	return unsafe.Sizeof(s) == unsafe.Sizeof(d) && isFloat[S]() == isFloat[D]() && isSigned[S]() == isSigned[D]()
}

// intBounds gives the smallest value of the integer type D and one more than
// its largest; both are exact as float64.
func intBounds[D number]() (lo, end float64) {
	var d D
	bits := int(unsafe.Sizeof(d)) * 8
	if isSigned[D]() {
		return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1)
	}
	return 0, math.Ldexp(1, bits)
}

// convert sets dst[i] to src[i] for all of src. It gives the index of the
// first value that D cannot hold, or -1; values before that index have been
// converted.
func convert[D, S number](dst []D, src []S) int {
	switch {
	case isFloat[S]() && !isFloat[D]():
		return floatToInt(dst, src)
	case !isFloat[S]() && !isFloat[D]():
		return intToInt(dst, src)
	}
	return toFloat(dst, src)
}

// floatToInt truncates toward zero, as netCDF does.
func floatToInt[D, S number](dst []D, src []S) int {
	lo, end := intBounds[D]()
	dst = dst[:len(src)]
	for i, v := range src {
		f := math.Trunc(float64(v))
		if !(f >= lo && f < end) { // also catches NaN
			return i
		}
		dst[i] = D(f)
	}
	return -1
}

func intToInt[D, S number](dst []D, src []S) int {
	dst = dst[:len(src)]
	for i, v := range src {
		w := D(v)
		if S(w) != v || (w < 0) != (v < 0) {
			return i
		}
		dst[i] = w
	}
	return -1
}

// toFloat rounds to nearest; only a finite value that becomes infinite is
// refused.
func toFloat[D, S number](dst []D, src []S) int {
	dst = dst[:len(src)]
	var s S
	var d D
	if !isFloat[S]() || unsafe.Sizeof(s) <= unsafe.Sizeof(d) {
		for i, v := range src {
			dst[i] = D(v)
		}
		return -1
	}
	for i, v := range src {
		w := D(v)
		if math.IsInf(float64(w), 0) && !math.IsInf(float64(v), 0) {
			return i
		}
		dst[i] = w
	}
	return -1
}

// halfToFloat gives the value of an IEEE 754 binary16.
func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0:
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// floatToHalf rounds to the nearest binary16, ties to even; ok is false when a
// finite value becomes infinite.
func floatToHalf(f float32) (h uint16, ok bool) {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: keep the top of the payload, or else be a quiet NaN
		if b>>13&0x3ff == 0 {
			b |= 0x400000
		}
		return sign | 0x7c00 | uint16(b>>13&0x3ff), true
	case b == 0x7f800000:
		return sign | 0x7c00, true
	case b < 0x38800000: // below the smallest normal binary16
		n := math.RoundToEven(float64(math.Float32frombits(b)) * (1 << 24))
		return sign | uint16(n), true
	}
	b += 0xfff + b>>13&1
	h = uint16(b>>13 - 112<<10)
	return sign | h&0x7fff, b>>13 < 0x1f<<10+112<<10
}
