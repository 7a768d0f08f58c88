package jsontext

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s to dst as a JSON string. It escapes only quotes, backslashes and
// control characters. A byte that is not part of valid UTF-8 is written as the escaped
// lone surrogate U+DC00 plus the byte, like Python's "surrogateescape", so that it
// survives a round trip.
//
// Source: PEP 383, "Non-decodable Bytes in System Character Interfaces".
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		n := 1
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		} else if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = appendEscape(dst, c)
		i += n
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if c >= utf8.RuneSelf {
		return append(dst, '\\', 'u', 'd', 'c', hexDigits[c>>4], hexDigits[c&15])
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Style determines how the members of objects are separated.
type Style struct{ Comma string }

// The styles of netcdf-c releases.
var (
	Spaced = Style{", "} // style of netcdf-c since 4.8.1
	Tight  = Style{","}  // style of netcdf-c 4.8.0
)

// Writer builds one document. The members of an object are in the order of the calls. The
// zero Writer uses the style Tight.
type Writer struct {
	Style Style
	buf   []byte
	// fresh records, for each open container, whether it is still empty.
	fresh []bool
	array []bool
}

// Bytes returns the document.
func (w *Writer) Bytes() []byte { return w.buf }

// sep writes the separator before an entry, except before the first.
func (w *Writer) sep(comma string) {
	if n := len(w.fresh); n > 0 {
		if !w.fresh[n-1] {
			w.buf = append(w.buf, comma...)
		}
		w.fresh[n-1] = false
	}
}

// before writes the separator before an element of an array. It must be called before every
// value.
func (w *Writer) before() {
	if n := len(w.array); n > 0 && w.array[n-1] {
		w.sep(",")
	}
}

// Key starts a member of an object. The caller must write its value next.
func (w *Writer) Key(name string) *Writer {
	comma := w.Style.Comma
	if comma == "" {
		comma = ","
	}
	w.sep(comma)
	w.buf = AppendString(w.buf, name)
	w.buf = append(w.buf, ": "...)
	return w
}

// Open starts an object ('{') or an array ('[').
func (w *Writer) Open(bracket byte) {
	w.before()
	w.buf = append(w.buf, bracket)
	w.fresh = append(w.fresh, true)
	w.array = append(w.array, bracket == '[')
}

// Close ends the innermost object or array.
func (w *Writer) Close() {
	n := len(w.array) - 1
	end := byte('}')
	if w.array[n] {
		end = ']'
	}
	w.buf = append(w.buf, end)
	w.fresh, w.array = w.fresh[:n], w.array[:n]
}

// Raw writes a value that is already JSON.
func (w *Writer) Raw(v Value) {
	w.before()
	w.buf = append(w.buf, v...)
}

// String writes a string.
func (w *Writer) String(s string) {
	w.before()
	w.buf = AppendString(w.buf, s)
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	w.before()
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

// Append writes the value that f appends to dst.
func (w *Writer) Append(f func(dst []byte) []byte) {
	w.before()
	w.buf = f(w.buf)
}

// Strings writes an array of strings.
func (w *Writer) Strings(list []string) {
	w.Open('[')
	for _, s := range list {
		w.String(s)
	}
	w.Close()
}

// Ints writes an array of integers.
func (w *Writer) Ints(list []int64) {
	w.Open('[')
	for _, n := range list {
		w.Int(n)
	}
	w.Close()
}

// Value writes v, which must be valid, as strict JSON. Values that are already strict
// are unchanged. Bare words become strings, numbers are rewritten by [StrictNumber],
// and control characters in strings are escaped.
func (w *Writer) Value(v Value) { w.value(v, false) }

// ValueKeepNaN is like [Writer.Value], but writes NaN, Infinity and -Infinity as bare
// words. Use it for documents that Python programs read, because they distinguish NaN from
// the string "NaN".
func (w *Writer) ValueKeepNaN(v Value) { w.value(v, true) }

func (w *Writer) value(v Value, words bool) {
	if words && json.Valid([]byte(v)) {
		w.Raw(v)
		return
	}
	switch v.Kind() {
	case Object:
		w.Open('{')
		_ = v.Each(func(key string, m Value) error { w.Key(key).value(m, words); return nil })
		w.Close()
	case Array:
		w.Open('[')
		_ = v.Elems(func(_ int, e Value) error { w.value(e, words); return nil })
		w.Close()
	case String:
		w.String(v.Text())
	case Number:
		w.Raw(StrictNumber(v))
	case Word:
		if words && (v == "NaN" || v == "Infinity" || v == "-Infinity") {
			w.Raw(v)
		} else {
			w.String(string(v))
		}
	case Null, Bool:
		w.Raw(v)
	default:
		w.Raw("null")
	}
}

// StrictNumber returns v, which must be a number, in the syntax of JSON: without a plus
// sign or leading zeros, and with digits on both sides of a point.
func StrictNumber(v Value) Value {
	out := make([]byte, 0, len(v)+2)
	if v[0] == '-' || v[0] == '+' {
		if v[0] == '-' {
			out = append(out, '-')
		}
		v = v[1:]
	}
	for len(v) > 1 && v[0] == '0' && v[1] >= '0' && v[1] <= '9' {
		v = v[1:]
	}
	if v[0] == '.' {
		out = append(out, '0')
	}
	for i := range len(v) {
		c := v[i]
		out = append(out, c)
		if c == '.' && (i+1 == len(v) || v[i+1] < '0' || v[i+1] > '9') {
			out = append(out, '0')
		}
	}
	return Value(out)
}
