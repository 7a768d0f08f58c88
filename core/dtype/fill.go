package dtype

import (
	"math"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DefaultFill returns netCDF's default fill value for nc as a slice of length 1:
// []uint8{0} for NCChar, []string{""} for NCString, nil for NCNone.
//
// Source: netcdf-c include/netcdf.h, NC_FILL_BYTE and related constants.
func DefaultFill(nc NC) any {
	switch nc {
	case NCByte:
		return []int8{-127}
	case NCUByte:
		return []uint8{255}
	case NCChar:
		return []uint8{0}
	case NCShort:
		return []int16{-32767}
	case NCUShort:
		return []uint16{65535}
	case NCInt:
		return []int32{-2147483647}
	case NCUInt:
		return []uint32{4294967295}
	case NCInt64:
		return []int64{-9223372036854775806}
	case NCUInt64:
		return []uint64{18446744073709551614}
	case NCFloat:
		return []float32{9.9692099683868690e+36}
	case NCDouble:
		return []float64{9.9692099683868690e+36}
	case NCString:
		return []string{""}
	}
	return nil
}

// FillBytes encodes value as one element of type t. value is a slice of length 1 of a
// type that [MakeSlice] returns, a []uint8 of length t.Size for Raw, or a string for Char
// and the string types. For Char, the string has one byte; the empty string means NUL.
// For elements of variable length, the result is the bytes of the string. The errors are
// the same as for [Encode].
func FillBytes(t Type, value any) ([]byte, error) {
	if s, ok := value.(string); ok {
		value = []string{s}
	}
	if s, ok := value.([]string); ok && !t.Fixed() && t.NC() == NCString && len(s) == 1 {
		return append([]byte{}, s[0]...), nil
	}
	if n := Len(value); n != 1 && t.Kind != Raw {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "encode", "", "expected one value, found %d", n)
	}
	if !t.Fixed() {
		return nil, badType("encode", t, value)
	}
	b := make([]byte, t.Size)
	if s, ok := value.([]string); ok && t.Kind == Char && s[0] == "\x00" {
		return b, nil
	}
	if err := Encode(b, t, value); err != nil {
		return nil, err
	}
	return b, nil
}

// AppendFloat appends f to dst as JSON: the shortest decimal that parses to the same float
// of the given size, 32 or 64 bits, in the style of C's %g. Negative zero is "-0.0", because
// many readers drop the sign of the integer "-0". NaN and the infinities, which JSON cannot
// represent as numbers, become the strings "NaN", "Infinity" and "-Infinity".
//
// Source: Zarr v2, "Fill value encoding".
func AppendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}
