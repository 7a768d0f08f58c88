package dtype

import (
	"math"
	"unsafe"
)

// isFloat reports whether T is a floating-point type.
func isFloat[T number]() bool { return T(1)/T(2) != 0 }

// isSigned reports whether T can represent negative values.
func isSigned[T number]() bool { var z T; return z-1 < 0 }

// sameType reports whether S and D are the same numeric type.
func sameType[S, D number]() bool {
	var s S
	var d D
	return unsafe.Sizeof(s) == unsafe.Sizeof(d) && isFloat[S]() == isFloat[D]() && isSigned[S]() == isSigned[D]()
}

// intSpan returns the open interval of floats whose integer part D can represent. Both
// bounds are exact.
func intSpan[D number]() (lo, hi float64) {
	var d D
	switch bits := int(unsafe.Sizeof(d)) * 8; {
	case !isSigned[D]():
		return -1, math.Ldexp(1, bits)
	case bits == 64:
		return math.Nextafter(-0x1p63, math.Inf(-1)), 0x1p63
	default:
		return -math.Ldexp(1, bits-1) - 1, math.Ldexp(1, bits-1)
	}
}

// convert sets dst[i] to src[i] for all of src. It returns the index of the first value
// that D cannot represent, or -1. The values before that index are converted.
func convert[D, S number](dst []D, src []S) int {
	switch {
	case isFloat[S]() && !isFloat[D]():
		return floatToInt(dst, src)
	case !isFloat[S]() && !isFloat[D]():
		return intToInt(dst, src)
	}
	return toFloat(dst, src)
}

// floatToInt truncates values toward zero, as netCDF does.
func floatToInt[D, S number](dst []D, src []S) int {
	lo, hi := intSpan[D]()
	dst = dst[:len(src)]
	for i, v := range src {
		f := float64(v)
		if !(f > lo && f < hi) { // the comparison also rejects NaN
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

// toFloat rounds values to the nearest float. It rejects only a finite value that
// becomes infinite.
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
	for i, v := range src { // float64 to float32
		w := D(v)
		dst[i] = w
		if w*0 == 0 { // w is finite
			continue
		}
		switch f := float64(v); {
		case math.IsNaN(f):
			*(*uint32)(unsafe.Pointer(&dst[i])) = Narrow(f)
		case !math.IsInf(f, 0):
			return i
		}
	}
	return -1
}
