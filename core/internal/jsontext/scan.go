// Package jsontext parses JSON more tolerantly than the standard requires, and writes
// strict JSON in the style of netcdf-c.
//
// A [Value] is the text of one JSON value, as a substring of its document. The package
// builds no tree in memory. [Document.Parse] finds the members of a document while it
// validates the document; nested members are found by scanning on demand. A document
// therefore takes little more memory than its bytes, and any value can be kept or written
// back unchanged. A string taken from a document keeps the whole document in memory.
//
// Beyond the standard the package accepts what existing Zarr and NCZarr writers produce:
// bare words such as NaN, Infinity or 0x10, numbers such as "0." and ".5", control
// characters inside strings, and a byte order mark. It rejects invalid UTF-8, trailing
// commas and nesting deeper than [MaxDepth].
//
// core/zarr and core/refs use this package. It imports only the standard library.
package jsontext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting depth of arrays and objects.
const MaxDepth = 64

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
	Word // a bare word that JSON does not have: NaN, Infinity, TRUE, 0x10
)

// Value is the text of one JSON value, without surrounding white space.
type Value string

// SyntaxError describes a syntax error and its position in the document.
type SyntaxError struct {
	Offset       int // byte offset in the document
	Line, Column int // both start at 1; Column counts bytes
	Msg          string
}

// Error returns the position and the message.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// scanner scans a document. It keeps the first error.
type scanner struct {
	b     string
	i     int
	loose bool        // the document is not strict JSON
	found *memberList // members of the outermost object; nil if not wanted
	err   *SyntaxError
}

func (s *scanner) fail(at int, format string, args ...any) bool {
	if s.err == nil {
		head := s.b[:min(at, len(s.b))]
		s.err = &SyntaxError{
			Offset: at,
			Line:   1 + strings.Count(head, "\n"),
			Column: at - strings.LastIndexByte(head, '\n'),
			Msg:    fmt.Sprintf(format, args...),
		}
	}
	return false
}

// The classes of bytes outside of strings. A scanner that looks for the end of a value
// skips the classes up to comma.
const (
	blank = iota
	wordy
	comma // comma and colon
	quote
	opening
	closing
	other
)

// classes holds the class of each byte.
var classes = func() (t [256]uint8) {
	for c := range t {
		t[c] = other
		if isWord(byte(c)) {
			t[c] = wordy
		}
	}
	for class, bytes := range [...]string{blank: " \t\n\r", comma: ",:", quote: `"`, opening: "{[", closing: "}]"} {
		for _, c := range []byte(bytes) {
			t[c] = uint8(class)
		}
	}
	return t
}()

// isWord reports whether c may occur in a bare word or number.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '-' || c == '.' || c == '_' || c == '$'
}

func (s *scanner) space() {
	i := s.i
	for i < len(s.b) && classes[s.b[i]] == blank {
		i++
	}
	s.i = i
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// Check validates a whole document and returns its value.
func Check(doc string) (Value, error) {
	s := scanner{b: doc}
	return s.whole()
}

// byteOrderMark is allowed at the start of a document.
const byteOrderMark = "\ufeff"

func (s *scanner) whole() (Value, error) {
	if strings.HasPrefix(s.b, byteOrderMark) {
		s.i, s.loose = len(byteOrderMark), true
	}
	s.space()
	start := s.i
	if s.i == len(s.b) {
		s.fail(s.i, "the document is empty")
		return "", s.err
	}
	if !s.value(0) {
		return "", s.err
	}
	end := s.i
	if s.peek(); s.i < len(s.b) {
		s.fail(s.i, "unexpected %s after the end of the value", show(s.b[s.i:]))
		return "", s.err
	}
	return Value(s.b[start:end]), nil
}

// value validates one value at the given depth.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.str()
	default:
		return s.word()
	}
}

func (s *scanner) object(depth int) bool {
	if depth == MaxDepth {
		return s.fail(s.i, "the value is nested deeper than %d levels", MaxDepth)
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return true
	}
	for {
		if s.peek() != '"' {
			return s.fail(s.i, "expected a member name, found %s", show(s.b[s.i:]))
		}
		name := s.i
		if !s.str() {
			return false
		}
		nameEnd := s.i
		if s.peek() != ':' {
			return s.fail(s.i, "expected ':' after a member name, found %s", show(s.b[s.i:]))
		}
		s.i++
		s.peek()
		val := s.i
		if !s.value(depth + 1) {
			return false
		}
		if depth == 0 && s.found != nil {
			s.found.add(Value(s.b[name:nameEnd]).Text(), Value(s.b[val:s.i]))
		}
		if more, ok := s.next('}'); !more {
			return ok
		}
	}
}

func (s *scanner) array(depth int) bool {
	if depth == MaxDepth {
		return s.fail(s.i, "the value is nested deeper than %d levels", MaxDepth)
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if more, ok := s.next(']'); !more {
			return ok
		}
	}
}

// next skips a comma or the closing bracket. more reports whether it was a comma.
func (s *scanner) next(closing byte) (more, ok bool) {
	switch c := s.peek(); {
	case c == ',':
		s.i++
		return true, true
	case c == closing && s.i < len(s.b):
		s.i++
		return false, true
	}
	return false, s.fail(s.i, "expected ',' or '%c', found %s", closing, show(s.b[s.i:]))
}

// str validates a string that starts at s.i.
func (s *scanner) str() bool {
	start, b := s.i, s.b
	i, all := s.i+1, byte(0) // all is the bitwise OR of the bytes examined one by one
	for i+8 <= len(b) && plain(b[i:i+8]) {
		i += 8
	}
	for i < len(b) && b[i] != '"' {
		c := b[i]
		all |= c
		if c == '\\' {
			if !s.escape(i) {
				return false
			}
			i++
		} else if c < ' ' {
			s.loose = true
		}
		i++
	}
	if i >= len(b) {
		return s.fail(start, "unterminated string")
	}
	if all >= utf8.RuneSelf && !utf8.ValidString(b[start:i]) {
		for k := start; k < i; {
			r, n := utf8.DecodeRuneInString(b[k:i])
			if r == utf8.RuneError && n == 1 {
				return s.fail(k, "byte %#x is not valid UTF-8", b[k])
			}
			k += n
		}
	}
	s.i = i + 1
	return true
}

// plain reports whether eight bytes are all ASCII, without quotes, backslashes or control
// characters.
//
// Source: "Bit Twiddling Hacks", determine if a word has a byte less than n.
func plain(b string) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	quotes, slashes := w^ones*'"', w^ones*'\\'
	return (w|(w-ones*' ')|(quotes-ones)|(slashes-ones))&tops == 0
}

// escape validates the escape sequence that starts with the backslash at i.
func (s *scanner) escape(i int) bool {
	if i+1 >= len(s.b) {
		return s.fail(i, "unterminated string")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if _, ok := hex4(s.b[i+2:]); ok {
			return true
		}
	}
	return s.fail(i, "invalid escape sequence %s", show(s.b[i:]))
}

func (s *scanner) word() bool {
	start, i := s.i, s.i
	for i < len(s.b) && classes[s.b[i]] == wordy {
		i++
	}
	if i == start {
		return s.fail(i, "expected a value, found %s", show(s.b[i:]))
	}
	s.i = i
	s.loose = s.loose || !strictWord(s.b[start:i])
	return true
}

// strictWord reports whether w is a valid JSON number, true, false or null.
func strictWord(w string) bool {
	switch w {
	case "null", "true", "false":
		return true
	}
	i := 0
	if w[0] == '-' {
		i++
	}
	from := i
	if i = digits(w, i); i == from || w[from] == '0' && i > from+1 {
		return false
	}
	if i < len(w) && w[i] == '.' {
		from = i + 1
		if i = digits(w, from); i == from {
			return false
		}
	}
	if i < len(w) && w[i]|0x20 == 'e' {
		if i++; i < len(w) && (w[i] == '-' || w[i] == '+') {
			i++
		}
		from = i
		if i = digits(w, i); i == from {
			return false
		}
	}
	return i == len(w)
}

// digits returns the end of the digits that start at i.
func digits(w string, i int) int {
	for i < len(w) && w[i] >= '0' && w[i] <= '9' {
		i++
	}
	return i
}

// show quotes the beginning of b for a message.
func show(b string) string {
	if len(b) == 0 {
		return "the end of the document"
	}
	if len(b) > 12 {
		b = b[:12]
	}
	return fmt.Sprintf("%q", b)
}

// skip skips one value. For speed it checks only that strings end and that there are as
// many closing as opening brackets.
func (s *scanner) skip() bool {
	switch s.peek() {
	case '"':
		return s.skipString()
	case '{', '[':
	default:
		return s.word()
	}
	b, i, depth := s.b, s.i, 0
	for i < len(b) {
		switch classes[b[i]] {
		case blank, wordy, comma:
			i++
			for i < len(b) && classes[b[i]] <= comma {
				i++
			}
		case quote:
			s.i = i
			if !s.skipString() {
				return false
			}
			i = s.i
		case opening:
			depth++
			i++
		case closing:
			i++
			if depth--; depth == 0 {
				s.i = i
				return true
			}
		default:
			s.i = i
			return s.word() // word reports the error
		}
	}
	s.i = i
	return s.word() // word reports the missing end
}

func (s *scanner) skipString() bool {
	start := s.i
	i := s.i + 1
	for {
		k := strings.IndexByte(s.b[min(i, len(s.b)):], '"')
		if k < 0 {
			return s.fail(start, "unterminated string")
		}
		q := i + k
		n := 0
		for s.b[q-1-n] == '\\' {
			n++
		}
		i = q + 1
		if n%2 == 0 || q-n <= start {
			s.i = i
			return true
		}
	}
}
