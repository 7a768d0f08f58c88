package cdl

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// quietNaN is the NaN without a payload, as in C, NumPy and JSON. math.NaN has a
// payload, which matters because values and fill values are compared by their bytes.
var quietNaN = math.Float64frombits(0x7FF8000000000000)

// specialFloats maps the spellings of NaN and infinity, without sign, to values.
var specialFloats = map[string]Value{
	"NaN": double(quietNaN), "nan": double(quietNaN),
	"NaNf": float(quietNaN), "nanf": float(quietNaN),
	"Infinity": double(math.Inf(1)), "inf": double(math.Inf(1)), "Inf": double(math.Inf(1)),
	"infinity": double(math.Inf(1)), "DoubleInf": double(math.Inf(1)),
	"Infinityf": float(math.Inf(1)), "inff": float(math.Inf(1)), "Inff": float(math.Inf(1)),
	"infinityf": float(math.Inf(1)), "FloatInf": float(math.Inf(1)),
}

func double(f float64) Value {
	return Value{Kind: Number, Type: dtype.NCDouble, Bits: math.Float64bits(f)}
}

func float(f float64) Value {
	return Value{Kind: Number, Type: dtype.NCFloat, Bits: math.Float64bits(f)}
}

// specialFloat parses a spelling of NaN or infinity with an optional sign.
func specialFloat(text string) (Value, bool) {
	body, neg := strings.TrimLeft(text, "+-"), text != "" && text[0] == '-'
	val, ok := specialFloats[body]
	if f := math.Float64frombits(val.Bits); ok && neg && !math.IsNaN(f) {
		val.Bits = math.Float64bits(-f)
	}
	return val, ok
}

// parseNumber parses a numeric constant with its suffix. A constant of a signed type
// may use all bits of the type: 65535s is -1, as in ncgen. Larger values are errors.
// why is the reason for a failure, or empty.
func parseNumber(text string) (val Value, why string) {
	body := text
	neg := body[0] == '-'
	if neg || body[0] == '+' {
		body = body[1:]
	}
	switch {
	case len(body) > 1 && body[0] == '0' && body[1]|0x20 == 'x':
		return parseHex(body[2:], neg)
	case strings.ContainsAny(body, ".eE"), endsIn(body, "fFdD"):
		return parseFloat(body, neg)
	}
	return parseInt(body, neg)
}

func endsIn(s, set string) bool { return strings.IndexByte(set, s[len(s)-1]) >= 0 }

func parseFloat(body string, neg bool) (Value, string) {
	typ := dtype.NCDouble
	if endsIn(body, "fFdDlL") {
		if endsIn(body, "fF") {
			typ = dtype.NCFloat
		}
		body = body[:len(body)-1]
	}
	if body == "" || strings.Trim(body, "0123456789.eE+-") != "" {
		return Value{}, "not a number"
	}
	bits := 64
	if typ == dtype.NCFloat {
		bits = 32
	}
	f, err := strconv.ParseFloat(body, bits)
	if err != nil {
		if math.IsInf(f, 0) {
			return Value{}, "too large for a " + typ.String()
		}
		return Value{}, "not a number"
	}
	if neg {
		f = -f
	}
	return Value{Kind: Number, Type: typ, Bits: math.Float64bits(f)}, ""
}

// parseHex parses hexadecimal digits with an optional suffix S, L, LL and U. Without a
// suffix the constant has bits but no type.
func parseHex(body string, neg bool) (Value, string) {
	digits, typ, ok := suffix(body, "SsLlUu")
	if !ok || digits == "" {
		return Value{}, "invalid suffix"
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	switch {
	case err != nil && strings.Trim(digits, "0123456789abcdefABCDEF") == "":
		return Value{}, "exceeds 64 bits"
	case err != nil:
		return Value{}, "not a number"
	case neg:
		return Value{}, "a hexadecimal constant cannot have a sign"
	case typ == dtype.NCNone || typ == dtype.NCInt && n > math.MaxUint32:
		return Value{Kind: Hex, Bits: n}, "" // ncgen also accepts L for any width here
	}
	return fit(n, false, typ)
}

func parseInt(body string, neg bool) (Value, string) {
	digits, typ, ok := suffix(body, "BbSsLlUu")
	if !ok || digits == "" {
		return Value{}, "invalid suffix"
	}
	base := 10
	if len(digits) > 1 && digits[0] == '0' {
		base = 8
	}
	n, err := strconv.ParseUint(digits, base, 64)
	switch {
	case err != nil && strings.Trim(digits, "0123456789") != "":
		return Value{}, "not a number"
	case err != nil && base == 8 && strings.ContainsAny(digits, "89"):
		return Value{}, "8 and 9 are not octal digits"
	case err != nil:
		return Value{}, "exceeds 64 bits"
	case typ == dtype.NCNone:
		return untyped(n, neg)
	}
	val, why := fit(n, neg, typ)
	if why != "" && typ == dtype.NCInt { // ncgen also accepts L for a 64-bit long
		return fit(n, neg, dtype.NCInt64)
	}
	return val, why
}

// suffixTypes maps each suffix to its signed and its unsigned type.
var suffixTypes = map[string][2]dtype.NC{
	"": {dtype.NCNone, dtype.NCUInt}, "b": {dtype.NCByte, dtype.NCUByte}, "s": {dtype.NCShort, dtype.NCUShort},
	"l": {dtype.NCInt, dtype.NCUInt}, "ll": {dtype.NCInt64, dtype.NCUInt64},
}

// suffix splits the type suffix off an integer constant. typ is NCNone if the constant
// has no suffix.
func suffix(s, letters string) (digits string, typ dtype.NC, ok bool) {
	end := len(s)
	for end > 0 && strings.IndexByte(letters, s[end-1]) >= 0 {
		end--
	}
	tail := strings.ToLower(s[end:])
	unsigned := strings.Count(tail, "u") == 1
	if unsigned {
		if tail[0] != 'u' && tail[len(tail)-1] != 'u' {
			return "", 0, false
		}
		tail = strings.Replace(tail, "u", "", 1)
	}
	pair, ok := suffixTypes[tail]
	if unsigned {
		return s[:end], pair[1], ok
	}
	return s[:end], pair[0], ok
}

// untyped assigns an integer without suffix the smallest of the types int, uint, int64
// (for negative values) and uint64 that can represent it.
func untyped(n uint64, neg bool) (Value, string) {
	val := Value{Kind: Number, Bits: n}
	switch {
	case !neg && n <= math.MaxInt32, neg && n <= 1<<31:
		val.Type = dtype.NCInt
	case !neg && n <= math.MaxUint32:
		val.Type = dtype.NCUInt
	case !neg:
		val.Type = dtype.NCUInt64
	case n <= 1<<63:
		val.Type = dtype.NCInt64
	default:
		return Value{}, "too small for any integer type"
	}
	if neg {
		val.Bits = -n
	}
	return val, ""
}

// fit converts n, negated if neg is set, to the integer type typ.
func fit(n uint64, neg bool, typ dtype.NC) (Value, string) {
	width := 8 * typ.Size()
	if isUnsigned(typ) {
		if neg && n != 0 {
			return Value{}, "an unsigned constant cannot have a sign"
		}
		if width < 64 && n >= 1<<width {
			return Value{}, "out of range for " + typ.String()
		}
		return Value{Kind: Number, Type: typ, Bits: n}, ""
	}
	if neg && n > 1<<(width-1) || !neg && width < 64 && n >= 1<<width {
		return Value{}, "out of range for " + typ.String()
	}
	if neg {
		n = -n
	}
	return Value{Kind: Number, Type: typ, Bits: uint64(int64(n<<(64-width)) >> (64 - width))}, ""
}

func isUnsigned(t dtype.NC) bool {
	return t == dtype.NCUByte || t == dtype.NCUShort || t == dtype.NCUInt || t == dtype.NCUInt64
}

func isFloat(t dtype.NC) bool { return t == dtype.NCFloat || t == dtype.NCDouble }
