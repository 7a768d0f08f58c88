package dtype

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// number is the set of Go element types of numeric slices.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// bytesOf returns the memory of s as bytes, or nil if s is empty.
func bytesOf[T number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// aligned returns b as elements of type T without a copy. It returns false if b is not
// aligned for T or is empty.
func aligned[T number](b []byte) ([]T, bool) {
	var z T
	size := unsafe.Sizeof(z)
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%size != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(size)), true
}

// Ints returns s, without a copy, as a slice of the integer type with the size of int:
// []int64 or, on a 32-bit machine, []int32.
func Ints(s []int) any {
	p := unsafe.Pointer(unsafe.SliceData(s))
	if bits.UintSize == 32 {
		return unsafe.Slice((*int32)(p), len(s))
	}
	return unsafe.Slice((*int64)(p), len(s))
}

// View returns the memory of a numeric slice as bytes, without a copy, and its element
// type in native byte order. The type of []uint8 is NCUByte. b aliases slice. ok reports
// whether slice has one of the ten numeric Go types ([]int8 to []float64).
func View(slice any) (b []byte, t Type, ok bool) {
	switch s := slice.(type) {
	case []int8:
		return bytesOf(s), NCByte.Type(Native), true
	case []uint8:
		return s, NCUByte.Type(Native), true
	case []int16:
		return bytesOf(s), NCShort.Type(Native), true
	case []uint16:
		return bytesOf(s), NCUShort.Type(Native), true
	case []int32:
		return bytesOf(s), NCInt.Type(Native), true
	case []uint32:
		return bytesOf(s), NCUInt.Type(Native), true
	case []int64:
		return bytesOf(s), NCInt64.Type(Native), true
	case []uint64:
		return bytesOf(s), NCUInt64.Type(Native), true
	case []float32:
		return bytesOf(s), NCFloat.Type(Native), true
	case []float64:
		return bytesOf(s), NCDouble.Type(Native), true
	}
	return nil, Type{}, false
}

// TypeOf returns the netCDF type that corresponds to the Go type of slice, and reports
// whether such a type exists. It returns NCChar for a string, and NCUByte for []uint8,
// although char arrays are []uint8 too.
func TypeOf(slice any) (NC, bool) {
	switch slice.(type) {
	case []int8:
		return NCByte, true
	case []uint8:
		return NCUByte, true
	case []int16:
		return NCShort, true
	case []uint16:
		return NCUShort, true
	case []int32:
		return NCInt, true
	case []uint32:
		return NCUInt, true
	case []int64:
		return NCInt64, true
	case []uint64:
		return NCUInt64, true
	case []float32:
		return NCFloat, true
	case []float64:
		return NCDouble, true
	case []string:
		return NCString, true
	case string:
		return NCChar, true
	}
	return NCNone, false
}

// MakeSlice returns a slice of n zero values of the Go type for nc: []uint8 for both
// NCUByte and NCChar, []string for NCString. It returns nil for NCNone.
func MakeSlice(nc NC, n int) any {
	switch nc {
	case NCByte:
		return make([]int8, n)
	case NCUByte, NCChar:
		return make([]uint8, n)
	case NCShort:
		return make([]int16, n)
	case NCUShort:
		return make([]uint16, n)
	case NCInt:
		return make([]int32, n)
	case NCUInt:
		return make([]uint32, n)
	case NCInt64:
		return make([]int64, n)
	case NCUInt64:
		return make([]uint64, n)
	case NCFloat:
		return make([]float32, n)
	case NCDouble:
		return make([]float64, n)
	case NCString:
		return make([]string, n)
	}
	return nil
}

// Len returns the number of values in a slice of a type that [MakeSlice] returns, the
// length of a string in bytes, and 0 for other types.
func Len(slice any) int {
	switch s := slice.(type) {
	case string:
		return len(s)
	case []string:
		return len(s)
	}
	b, t, ok := View(slice)
	if !ok {
		return 0
	}
	return len(b) / t.Size
}

// SwapBytes reverses the order of the bytes in every run of width bytes of b, in place.
// width is 1 (no change), 2, 4 or 8. Bytes after the last whole run are unchanged.
func SwapBytes(b []byte, width int) {
	switch width {
	case 2:
		swap16(b)
	case 4:
		swap32(b)
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.NativeEndian.PutUint64(b, bits.ReverseBytes64(binary.NativeEndian.Uint64(b)))
		}
	}
}

// swap16 implements SwapBytes for width 2. It swaps the bytes of four values at a time.
func swap16(b []byte) {
	const mask = 0x00ff00ff00ff00ff
	for ; len(b) >= 8; b = b[8:] {
		v := binary.NativeEndian.Uint64(b)
		binary.NativeEndian.PutUint64(b, v>>8&mask|v&mask<<8)
	}
	for ; len(b) >= 2; b = b[2:] {
		b[0], b[1] = b[1], b[0]
	}
}

// swap32 implements SwapBytes for width 4. It swaps the bytes of two values at a time.
func swap32(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		v := bits.ReverseBytes64(binary.NativeEndian.Uint64(b))
		binary.NativeEndian.PutUint64(b, v>>32|v<<32)
	}
	if len(b) >= 4 {
		binary.NativeEndian.PutUint32(b, bits.ReverseBytes32(binary.NativeEndian.Uint32(b)))
	}
}
