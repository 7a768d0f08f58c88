package number

import (
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Block is how many elements the filters convert at a time, through memory on
// the stack.
const Block = 256

// LoadFloats loads the first len(dst) elements of src. Integers of 64 bits are
// rounded to the nearest float.
func LoadFloats(dst []float64, t dtype.Type, src []byte) {
	little := t.Order != dtype.Big
	switch {
	case t.Kind == dtype.Float && t.Size == 4 && little:
		src = src[:4*len(dst)]
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case t.Kind == dtype.Float && t.Size == 8 && little:
		src = src[:8*len(dst)]
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		}
	case t.Kind == dtype.Int && t.Size == 1:
		for i, v := range src[:len(dst)] {
			dst[i] = float64(int8(v))
		}
	case t.Kind == dtype.Uint && t.Size == 1:
		for i, v := range src[:len(dst)] {
			dst[i] = float64(v)
		}
	case t.Kind == dtype.Int && t.Size == 2 && little:
		src = src[:2*len(dst)]
		for i := range dst {
			dst[i] = float64(int16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	case t.Kind == dtype.Uint && t.Size == 2 && little:
		src = src[:2*len(dst)]
		for i := range dst {
			dst[i] = float64(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case t.Kind == dtype.Int && t.Size == 4 && little:
		src = src[:4*len(dst)]
		for i := range dst {
			dst[i] = float64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	default:
		for i := range dst {
			dst[i] = Float(t, src[i*t.Size:])
		}
	}
}

// StoreFloats stores src as elements of type t: rounded to the nearest for
// floats, with the fraction cut off for integers. It gives the index of the
// first value that t cannot hold (NaN in an integer, a finite value beyond
// the range), or -1.
func StoreFloats(dst []byte, t dtype.Type, src []float64) int {
	if !IsFloat(t) {
		return storeInts(dst, t, src)
	}
	little := t.Order != dtype.Big
	switch {
	case t.Size == 4 && little:
		dst = dst[:4*len(src)]
		for i, v := range src {
			f := float32(v)
			if beyond(v, float64(f)) {
				return i
			}
			bits := math.Float32bits(f)
			if v != v { // a NaN
				bits = Narrow(v)
			}
			binary.LittleEndian.PutUint32(dst[4*i:], bits)
		}
	case t.Size == 8 && little:
		dst = dst[:8*len(src)]
		for i, v := range src {
			binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	default:
		for i, v := range src {
			e := dst[i*t.Size:]
			PutFloat(t, e, v)
			if t.Size < 8 && beyond(v, Float(t, e)) {
				return i
			}
		}
	}
	return -1
}

// beyond reports whether a finite v became infinite.
func beyond(v, stored float64) bool {
	return stored-stored != 0 && v-v == 0
}

// storeInts stores numbers whose whole part t can hold.
func storeInts(dst []byte, t dtype.Type, src []float64) int {
	lo, hi := span(t)
	little := t.Order != dtype.Big
	switch {
	case t.Size == 1:
		dst = dst[:len(src)]
		for i, v := range src {
			if !(v > lo && v < hi) { // NaN too
				return i
			}
			dst[i] = byte(int32(v))
		}
	case t.Size == 2 && little:
		dst = dst[:2*len(src)]
		for i, v := range src {
			if !(v > lo && v < hi) { // NaN too
				return i
			}
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(int32(v)))
		}
	case t.Size == 4 && little:
		dst = dst[:4*len(src)]
		for i, v := range src {
			if !(v > lo && v < hi) { // NaN too
				return i
			}
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(int64(v)))
		}
	default:
		for i, v := range src {
			if !(v > lo && v < hi) { // NaN too
				return i
			}
			PutFloat(t, dst[i*t.Size:], v)
		}
	}
	return -1
}

// span gives the open interval of the floats whose whole part is in t.
func span(t dtype.Type) (lo, hi float64) {
	bits := 8 * t.Size
	switch {
	case t.Kind == dtype.Bool:
		return math.Inf(-1), math.Inf(1)
	case t.Kind == dtype.Uint:
		return -1, math.Ldexp(1, bits)
	case bits == 64:
		return math.Nextafter(-0x1p63, math.Inf(-1)), 0x1p63
	}
	return -math.Ldexp(1, bits-1) - 1, math.Ldexp(1, bits-1)
}

// Convert stores n elements of type from at src as elements of type to at
// dst, as numpy's astype does where the value fits: floats lose their
// fraction in integers and are rounded in smaller floats. It gives the index
// of the first value that does not fit, or -1.
func Convert(dst []byte, to dtype.Type, src []byte, from dtype.Type, n int) int {
	switch {
	case to == from:
		copy(dst[:n*to.Size], src)
		return -1
	case to.Kind == dtype.Bool:
		for i := range n {
			dst[i] = truth(from, src[i*from.Size:])
		}
		return -1
	case !IsFloat(from) && !IsFloat(to):
		return convertInts(dst, to, src, from, n)
	case from.Size == 8 && !IsFloat(from) && to.Size < 8:
		return convertLong(dst, to, src, from, n)
	}
	var buf [Block]float64
	for at := 0; at < n; at += Block {
		b := buf[:min(Block, n-at)]
		LoadFloats(b, from, src[at*from.Size:])
		if i := StoreFloats(dst[at*to.Size:], to, b); i >= 0 {
			return at + i
		}
	}
	return -1
}

// truth is 1 for anything but zero; NaN is not zero.
func truth(t dtype.Type, e []byte) byte {
	v := Bits(t, e)
	if IsFloat(t) {
		v <<= 65 - 8*uint(t.Size) // without the sign
	}
	if v != 0 {
		return 1
	}
	return 0
}

func convertInts(dst []byte, to dtype.Type, src []byte, from dtype.Type, n int) int {
	for i := range n {
		v := Int(from, src[i*from.Size:])
		e := dst[i*to.Size:]
		PutBits(to, e, uint64(v))
		long := from.Kind == dtype.Uint && from.Size == 8 && v < 0 // beyond int64
		switch {
		case long && (to.Kind != dtype.Uint || to.Size < 8):
			return i
		case !long && (Int(to, e) != v || v < 0 && to.Kind == dtype.Uint):
			return i
		}
	}
	return -1
}

// convertLong rounds integers of 64 bits to small floats once, by way of
// float32 as numpy does.
func convertLong(dst []byte, to dtype.Type, src []byte, from dtype.Type, n int) int {
	for i := range n {
		v := Int(from, src[i*from.Size:])
		f := float32(v)
		if from.Kind == dtype.Uint {
			f = float32(uint64(v))
		}
		one := [1]float64{float64(f)}
		if StoreFloats(dst[i*to.Size:], to, one[:]) >= 0 {
			return i
		}
	}
	return -1
}
