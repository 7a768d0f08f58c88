package jsontext

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind returns the kind of v. It is Invalid for an empty value.
func (v Value) Kind() Kind {
	if len(v) == 0 {
		return Invalid
	}
	switch v[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 'n', 't', 'f':
		switch v {
		case "null":
			return Null
		case "true", "false":
			return Bool
		}
		return Word
	}
	if isNumber(v) {
		return Number
	}
	return Word
}

// isNumber reports whether v is a decimal number. Unlike JSON, isNumber allows missing
// digits before or after the point, a leading plus sign and leading zeros.
func isNumber(v Value) bool {
	i, seen := 0, 0 // seen counts the digits
	if i < len(v) && (v[i] == '-' || v[i] == '+') {
		i++
	}
	from := i
	i = digits(string(v), i)
	seen = i - from
	if i < len(v) && v[i] == '.' {
		from = i + 1
		i = digits(string(v), from)
		seen += i - from
	}
	if seen == 0 {
		return false
	}
	if i < len(v) && v[i]|0x20 == 'e' {
		i++
		if i < len(v) && (v[i] == '-' || v[i] == '+') {
			i++
		}
		from = i
		if i = digits(string(v), i); i == from {
			return false
		}
	}
	return i == len(v)
}

// IsInt reports whether v is a number without a point or an exponent.
func (v Value) IsInt() bool {
	from := 0
	if v != "" && (v[0] == '-' || v[0] == '+') {
		from = 1
	}
	end := digits(string(v), from)
	return end == len(v) && end > from
}

// Int64 returns the value of an integer. ok is false if v is not an integer or overflows.
func (v Value) Int64() (n int64, ok bool) {
	if !v.IsInt() {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

// Uint64 is like [Value.Int64], for unsigned integers.
func (v Value) Uint64() (n uint64, ok bool) {
	if !v.IsInt() {
		return 0, false
	}
	if v[0] == '+' {
		v = v[1:]
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	return n, err == nil
}

// quietNaN is the NaN without a payload, as C and NumPy use it. Fill values are compared
// bytewise, and math.NaN has other bits.
const quietNaN = 0x7FF8000000000000

// Float returns the value of a number, or of NaN, Infinity or -Infinity as a bare word or
// a string. It rounds a number to the nearest float of the given size, 32 or 64 bits. ok is
// false for anything else and for numbers that overflow.
func (v Value) Float(bits int) (f float64, ok bool) {
	text := string(v)
	switch v.Kind() {
	case Number:
		// Most writers append ".0" to whole numbers, which would bypass the fast path of
		// ParseFloat.
		if n := len(text) - 2; n > 0 && text[n:] == ".0" && text[n-1] >= '0' && text[n-1] <= '9' {
			text = text[:n]
		}
		f, err := strconv.ParseFloat(text, bits)
		return f, err == nil
	case String:
		text = v.Text()
	case Word:
	default:
		return 0, false
	}
	switch text {
	case "NaN", "nan", "NAN", "-NaN", "-nan":
		return math.Float64frombits(quietNaN), true
	case "Infinity", "inf", "infinity", "Inf", "+Infinity", "+inf":
		return math.Inf(1), true
	case "-Infinity", "-inf", "-infinity", "-Inf":
		return math.Inf(-1), true
	}
	return 0, false
}

// errStop ends an iteration early, without an error.
var errStop = errors.New("stop")

// Each calls f for each member of an object, in order, with the unescaped key. A key
// may occur more than once; its last value is the effective one. If f returns an error,
// Each stops and returns it.
//
// v need not have been validated. A syntax error between members is an error. Values are
// only checked as far as needed to find their ends.
func (v Value) Each(f func(key string, val Value) error) error {
	return v.EachIn(func(key string, from, to int) error { return f(key, v[from:to]) }, "", nil)
}

// EachIn is like [Value.Each], but passes the positions of the values in v. A byte order
// mark and white space may precede the object. If the member named within is an object,
// EachIn calls inner for each of its members in the same pass, before it calls f for the
// member.
func (v Value) EachIn(f func(key string, from, to int) error, within string, inner func(key string, from, to int) error) error {
	s := scanner{b: string(v), i: len(v) - len(strings.TrimPrefix(string(v), byteOrderMark))}
	return s.each(f, within, inner)
}

// each implements EachIn for the object that starts at s.i; inner may be nil.
func (s *scanner) each(f func(key string, from, to int) error, within string, inner func(key string, from, to int) error) error {
	if s.peek() != '{' {
		s.fail(s.i, "expected an object, found %s", show(s.b))
		return s.err
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		key, from, ok := s.name()
		if !ok {
			return s.err
		}
		if inner != nil && key == within && s.peek() == '{' {
			if err := s.each(inner, "", nil); err != nil {
				return err
			}
		} else if !s.skip() {
			return s.err
		}
		if err := f(key, from, s.i); err != nil {
			return err
		}
		if more, ok := s.next('}'); !more {
			if !ok {
				return s.err
			}
			return nil
		}
	}
}

// name scans the name of a member. It returns the name and the position of the value.
func (s *scanner) name() (key string, from int, ok bool) {
	if s.peek() != '"' {
		return "", 0, s.fail(s.i, "expected a member name, found %s", show(s.b[s.i:]))
	}
	start := s.i
	if !s.skipString() {
		return "", 0, false
	}
	key = Value(s.b[start:s.i]).Text()
	if s.peek() != ':' {
		return "", 0, s.fail(s.i, "expected ':' after a member name, found %s", show(s.b[s.i:]))
	}
	s.i++
	s.space()
	return key, s.i, true
}

// Elems calls f for each element of an array, in order. Like [Value.Each] it stops at the
// first error.
func (v Value) Elems(f func(i int, val Value) error) error {
	s := scanner{b: string(v)}
	if s.peek() != '[' {
		s.fail(s.i, "expected an array, found %s", show(string(v)))
		return s.err
	}
	s.i++
	if s.peek() == ']' {
		return nil
	}
	for n := 0; ; n++ {
		s.space()
		start := s.i
		if !s.skip() {
			return s.err
		}
		if err := f(n, Value(s.b[start:s.i])); err != nil {
			return err
		}
		if more, ok := s.next(']'); !more {
			if !ok {
				return s.err
			}
			return nil
		}
	}
}

// Len returns the number of elements of a validated array.
func (v Value) Len() int {
	n := 0
	_ = v.Elems(func(int, Value) error { n++; return nil })
	return n
}

// First returns the first element of a validated array, or "".
func (v Value) First() (first Value) {
	_ = v.Elems(func(_ int, e Value) error { first = e; return errStop })
	return first
}

// Get returns the value of the last member called key in a validated object. It returns ""
// if the member is missing or v is not an object.
func (v Value) Get(key string) (val Value) {
	if v.Kind() != Object {
		return ""
	}
	_ = v.Each(func(k string, m Value) error {
		if k == key {
			val = m
		}
		return nil
	})
	return val
}

// Text returns the content of a string, and the text of any other value unchanged. In a
// string it decodes escapes. An escaped lone low surrogate U+DC80 to U+DCFF decodes to
// the byte 0x80 to 0xFF (see [AppendString]); other lone surrogates decode to U+FFFD.
func (v Value) Text() string {
	if len(v) < 2 || v[0] != '"' {
		return string(v)
	}
	b := string(v[1 : len(v)-1])
	if i := strings.IndexByte(b, '\\'); i >= 0 {
		return unescape(b, i)
	}
	return b
}

// unescape decodes b, whose first backslash is at i.
func unescape(b string, i int) string {
	out := append(make([]byte, 0, len(b)), b[:i]...)
	for i < len(b) {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		c := b[i+1]
		i += 2
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			var n int
			out, n = appendEscaped(out, b[i:])
			i += n
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// appendEscaped decodes the digits after \u, including the second half of a surrogate
// pair. It returns the extended slice and the number of bytes read from b.
func appendEscaped(out []byte, b string) ([]byte, int) {
	r, ok := hex4(b)
	if !ok {
		return out, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), 4
	}
	if len(b) >= 10 && b[4] == '\\' && b[5] == 'u' {
		if low, ok := hex4(b[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 10
			}
		}
	}
	if r >= 0xdc80 && r <= 0xdcff {
		return append(out, byte(r)), 4
	}
	return utf8.AppendRune(out, utf8.RuneError), 4
}

// hex4 parses four hexadecimal digits.
func hex4(b string) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for i := range 4 {
		c := b[i]
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
