package cdl

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// formatter formats values as CDL.
type formatter struct {
	digits [2]int // significant digits of float and double
	exact  bool   // use more digits if needed to represent the value exactly
}

// appendFloat appends v as C's printf does with %.<digits>g. bits is 32 or 64. NaN and
// infinity are written as in CDL.
func (f *formatter) appendFloat(dst []byte, v float64, bits int) []byte {
	tail := ""
	digits, most := f.digits[1], 17
	if bits == 32 {
		tail, digits, most = "f", f.digits[0], 9
	}
	switch {
	case math.IsNaN(v):
		return append(append(dst, "NaN"...), tail...)
	case math.IsInf(v, 1):
		return append(append(dst, "Infinity"...), tail...)
	case math.IsInf(v, -1):
		return append(append(dst, "-Infinity"...), tail...)
	case f.exact && v == 0 && math.Signbit(v):
		return append(dst, "-0."...) // "-0" would be parsed as an integer, which has no negative zero
	}
	start := len(dst)
	dst = appendG(dst, v, digits)
	for f.exact && digits < most {
		if back, err := strconv.ParseFloat(string(dst[start:]), bits); err == nil && back == v {
			break
		}
		digits++
		dst = appendG(dst[:start], v, digits)
	}
	return dst
}

// appendG appends v as %.<digits>g does: at most digits significant digits, no trailing
// zeros, and an exponent if the decimal exponent is less than -4 or at least digits.
func appendG(dst []byte, v float64, digits int) []byte {
	return strconv.AppendFloat(dst, v, 'g', max(digits, 1), 64)
}

// appendAttrFloat is like appendFloat for attributes. The result always contains a point,
// and has the suffix f for a float, so that it is parsed with the right type.
func (f *formatter) appendAttrFloat(dst []byte, v float64, bits int) []byte {
	start := len(dst)
	dst = f.appendFloat(dst, v, bits)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dst
	}
	if bytes.IndexByte(dst[start:], '.') < 0 {
		if e := bytes.IndexByte(dst[start:], 'e'); e >= 0 {
			exp := string(dst[start+e:])
			dst = append(append(dst[:start+e], '.'), exp...)
		} else {
			dst = append(dst, '.')
		}
	}
	if bits == 32 {
		dst = append(dst, 'f')
	}
	return dst
}

// appendAttr appends the values of an attribute.
func (f *formatter) appendAttr(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendText(dst, strings.TrimRight(v, "\x00"))
	case []string:
		return appendList(dst, v, func(dst []byte, s string) []byte { return appendText(dst, strings.TrimRight(s, "\x00")) })
	case []int8:
		return appendInts(dst, v, "b")
	case []int16:
		return appendInts(dst, v, "s")
	case []int32:
		return appendInts(dst, v, "")
	case []int64:
		return appendInts(dst, v, "LL")
	case plainInts:
		return appendInts(dst, v, "")
	case []uint8:
		return appendUints(dst, v, "UB")
	case []uint16:
		return appendUints(dst, v, "US")
	case []uint32:
		return appendUints(dst, v, "U")
	case []uint64:
		return appendUints(dst, v, "ULL")
	case []float32:
		return appendList(dst, v, func(dst []byte, x float32) []byte { return f.appendAttrFloat(dst, float64(x), 32) })
	case []float64:
		return appendList(dst, v, func(dst []byte, x float64) []byte { return f.appendAttrFloat(dst, x, 64) })
	}
	return fmt.Appendf(dst, "%q", fmt.Sprint(value)) // unreachable: attributes have no other types
}

// appendList appends the elements separated by commas. For an empty list it appends an
// empty string, as ncdump does.
func appendList[T any](dst []byte, list []T, one func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return append(dst, `""`...)
	}
	for i, x := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = one(dst, x)
	}
	return dst
}

func appendInts[T ~int8 | ~int16 | ~int32 | ~int64](dst []byte, list []T, suffix string) []byte {
	return appendList(dst, list, func(dst []byte, x T) []byte {
		return append(strconv.AppendInt(dst, int64(x), 10), suffix...)
	})
}

func appendUints[T ~uint8 | ~uint16 | ~uint32 | ~uint64](dst []byte, list []T, suffix string) []byte {
	return appendList(dst, list, func(dst []byte, x T) []byte {
		return append(strconv.AppendUint(dst, uint64(x), 10), suffix...)
	})
}

// charEscapes maps characters to their named escapes.
var charEscapes = [256]string{
	'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\v': `\v`,
	'\\': `\\`, '\'': `\'`, '"': `\"`,
}

// appendText appends a string or char attribute in quotes. Control characters are
// escaped. Bytes from 0x80 are not, so that UTF-8 is readable.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		dst = appendByte(dst, s[i], 0xff)
	}
	return append(dst, '"')
}

// appendByte appends one byte of a string. It writes the characters in charEscapes
// as named escapes, and other control characters and bytes above top as octal escapes.
func appendByte(dst []byte, c, top byte) []byte {
	switch {
	case charEscapes[c] != "":
		return append(dst, charEscapes[c]...)
	case c < ' ' || c == 0x7f || c > top:
		return append(dst, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
	}
	return append(dst, c)
}

// nameSpecials are the characters that a name must escape with a backslash.
const nameSpecials = " !\"#$&'()*,:;<=>?[]\\^`{|}~"

// escapeName returns a name as written in CDL. It writes a backslash before special
// characters, and before a first character that no name can start with. Control
// characters and a leading percent sign become \%hh.
func escapeName(name string) string {
	plain := true
	for i := range len(name) {
		c := name[i]
		plain = plain && c > ' ' && c != 0x7f && strings.IndexByte(nameSpecials, c) < 0 && (i > 0 || isIdentStart(c))
	}
	if plain {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c < ' ' || c == 0x7f || i == 0 && c == '%':
			b.WriteString(`\%`)
			b.WriteString(strconv.FormatUint(uint64(c)+0x100, 16)[1:])
			continue
		case strings.IndexByte(nameSpecials, c) >= 0, i == 0 && !isIdentStart(c):
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// same reports whether ncdump treats v as the fill value. It returns true if both are
// equal within eps, both are NaN, or both are the same infinity.
func same(v, fill, eps float64) bool {
	switch {
	case v > 0 != (fill > 0):
		return false
	case math.IsNaN(v) || math.IsNaN(fill):
		return math.IsNaN(v) && math.IsNaN(fill)
	case math.IsInf(v, 0) || math.IsInf(fill, 0):
		return v == fill
	}
	return math.Abs(v-fill) <= math.Abs(eps*fill)
}

// same32 is like same for floats. Every step is rounded to float, as in C.
func same32(v, fill float32) bool {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) || math.IsNaN(float64(fill)) || math.IsInf(float64(fill), 0) {
		return same(float64(v), float64(fill), 0)
	}
	diff, limit := v-fill, float32(0x1p-23)*fill
	return v > 0 == (fill > 0) && math.Abs(float64(diff)) <= math.Abs(float64(limit))
}
