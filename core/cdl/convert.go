package cdl

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// bitsOf converts v to an integer type of the given width, in the low bits of the
// result. A value may use all bits of the type regardless of its sign: 255 is the byte
// -1, and -1 is the ubyte 255, as in ncgen. Larger values and fractions are errors. why
// is the reason for a failure, or empty.
func bitsOf(v Value, width uint) (bits uint64, why string) {
	low, high := int64(-1)<<(width-1), uint64(1)<<(width-1)<<1-1
	const bad = "the value is out of range"
	switch {
	case v.Kind == Hex, v.Kind == Char, v.Kind == Number && isUnsigned(v.Type):
		if v.Bits > high {
			return 0, bad
		}
		return v.Bits, ""
	case v.Kind == Number && isFloat(v.Type):
		f := math.Float64frombits(v.Bits)
		switch {
		case f != math.Trunc(f): // NaN also differs from its truncation
			return 0, "the value is not an integer"
		case f >= 0 && f < math.Ldexp(1, int(width)):
			return uint64(f), ""
		case f < 0 && f >= float64(low):
			return uint64(int64(f)), ""
		}
		return 0, bad
	case v.Kind == Number:
		if n := int64(v.Bits); n < low || n > 0 && uint64(n) > high {
			return 0, bad
		}
		return v.Bits, ""
	}
	return 0, notNumber(v)
}

// floatOf converts v to a floating-point number of the given width.
func floatOf(v Value, width int) (f float64, why string) {
	switch {
	case v.Kind == Hex, v.Kind == Char, v.Kind == Number && isUnsigned(v.Type):
		f = float64(v.Bits)
	case v.Kind == Number && isFloat(v.Type):
		f = math.Float64frombits(v.Bits)
	case v.Kind == Number:
		f = float64(int64(v.Bits))
	default:
		return 0, notNumber(v)
	}
	if width == 32 && !math.IsInf(f, 0) && math.IsInf(float64(float32(f)), 0) {
		return 0, "the value is out of range"
	}
	return f, ""
}

func notNumber(v Value) string {
	switch v.Kind {
	case Text:
		return "expected a number, found a string"
	case Nil:
		return "only a string can be NIL"
	case List:
		return "expected a value, found a list in braces"
	case Fill:
		return "_ is not allowed here"
	}
	return "expected a number"
}

// converter converts constants to typed values. Its errors contain positions.
type converter struct{ name string }

func (c converter) fail(kind ncerr.Kind, pos Pos, format string, args ...any) error {
	return fail(kind, c.name, pos, format, args...)
}

// into converts vals to the first elements of dst, a typed slice that is at least as
// long. _ becomes fill, a slice of length 1; if fill is nil, _ is an error.
func (c converter) into(dst any, vals []Value, fill any) error {
	switch dst := dst.(type) {
	case []int8:
		return ints(c, dst, vals, fill, 8)
	case []uint8:
		return ints(c, dst, vals, fill, 8)
	case []int16:
		return ints(c, dst, vals, fill, 16)
	case []uint16:
		return ints(c, dst, vals, fill, 16)
	case []int32:
		return ints(c, dst, vals, fill, 32)
	case []uint32:
		return ints(c, dst, vals, fill, 32)
	case []int64:
		return ints(c, dst, vals, fill, 64)
	case []uint64:
		return ints(c, dst, vals, fill, 64)
	case []float32:
		return floats(c, dst, vals, fill, 32)
	case []float64:
		return floats(c, dst, vals, fill, 64)
	case []string:
		return c.strings(dst, vals, fill)
	}
	return ncerr.Errorf(ncerr.ErrInternal, "read cdl", c.name, "no conversion to %T", dst)
}

// convertAll converts all values with f.
func convertAll[T any](c converter, dst []T, vals []Value, fill any, f func(Value) (T, string)) error {
	filler, _ := fill.([]T)
	for i, v := range vals {
		if v.Kind == Fill && len(filler) == 1 {
			dst[i] = filler[0]
			continue
		}
		x, why := f(v)
		if why != "" {
			return c.fail(ncerr.ErrConvert, v.Pos, "%s", why)
		}
		dst[i] = x
	}
	return nil
}

func ints[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](c converter, dst []T, vals []Value, fill any, width uint) error {
	return convertAll(c, dst, vals, fill, func(v Value) (T, string) {
		bits, why := bitsOf(v, width)
		return T(bits), why
	})
}

func floats[T float32 | float64](c converter, dst []T, vals []Value, fill any, width int) error {
	return convertAll(c, dst, vals, fill, func(v Value) (T, string) {
		f, why := floatOf(v, width)
		return T(f), why
	})
}

func (c converter) strings(dst []string, vals []Value, fill any) error {
	return convertAll(c, dst, vals, fill, func(v Value) (string, string) {
		switch v.Kind {
		case Text:
			return v.Text, ""
		case Nil:
			return "", ""
		case Fill:
			return "", "_ is not allowed here"
		}
		return "", "expected a string"
	})
}

// attrValue converts the value of an attribute to type typ.
func (c converter) attrValue(a *Attr, typ dtype.NC) (any, error) {
	if typ == dtype.NCChar {
		var text []byte
		chars := packer{converter: c, unit: 1, put: func(part []byte) error {
			text = append(text, part...)
			return nil
		}}
		for i := range a.Values {
			if err := chars.add(&a.Values[i]); err != nil {
				return nil, err
			}
		}
		return string(text), nil
	}
	if len(a.Values) == 0 {
		return nil, c.fail(ncerr.ErrInvalid, a.Pos, "attribute %q has no value; only a string can be empty", a.Name)
	}
	dst := dtype.MakeSlice(typ, len(a.Values))
	return dst, c.into(dst, a.Values, nil)
}

// inferType returns the type of an attribute without an explicit type: char for
// strings, otherwise the widest type of its values.
//
// Source: netcdf-c ncgen, type inference of attributes.
func (c converter) inferType(a *Attr) (dtype.NC, error) {
	texts, chars, wide := 0, 0, dtype.NCNone
	for _, v := range a.Values {
		typ := v.Type
		switch v.Kind {
		case Text:
			texts++
			continue
		case Char:
			chars++
			typ = dtype.NCByte
		case Hex:
			number, _ := untyped(v.Bits, false)
			typ = number.Type
		case Number:
		default:
			return 0, c.fail(ncerr.ErrInvalid, v.Pos, "%s", notNumber(v))
		}
		wide = wider(wide, typ)
	}
	switch {
	case texts == len(a.Values), texts > 0 && texts+chars == len(a.Values):
		return dtype.NCChar, nil
	case texts > 0:
		return 0, c.fail(ncerr.ErrInvalid, a.Pos, "attribute %q mixes strings and numbers", a.Name)
	}
	if wide == dtype.NCInt64 || wide == dtype.NCUInt64 {
		for _, v := range a.Values {
			if v.Type == dtype.NCUInt64 && v.Bits > math.MaxInt64 {
				return dtype.NCUInt64, nil
			}
		}
	}
	return wide, nil
}

// wider returns the type for values of both a and b. It prefers floating point to
// integers and double to float. Otherwise it returns the larger type, or b if both have
// the same size.
func wider(a, b dtype.NC) dtype.NC {
	switch {
	case a == dtype.NCNone:
		return b
	case isFloat(a) && isFloat(b):
		return max(a, b)
	case isFloat(a):
		return a
	case isFloat(b) || b.Size() >= a.Size():
		return b
	}
	return a
}
