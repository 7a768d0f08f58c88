// Package jsontext reads JSON as spans of the document's own bytes, more
// tolerantly than the standard asks, and writes it strictly in the style of
// netCDF-C.
//
// A [Value] is the text of one value. Nothing is built in memory: members and
// elements are found by scanning when they are asked for, so a document costs
// no more memory than its bytes, and any value can be kept or written back
// exactly as it stands.
//
// Beyond the standard it accepts what real Zarr and NCZarr writers leave
// behind: bare words such as NaN, Infinity or 0x10, numbers such as "0." and
// ".5", control characters inside strings, and a byte order mark. It refuses
// invalid UTF-8, trailing commas and nesting deeper than [MaxDepth].
//
// Only core/zarr imports this package. It imports the standard library only.
package jsontext

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of arrays and objects that is accepted.
const MaxDepth = 64

// Kind is the class of a value.
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

// Value is the text of one JSON value, without space around it.
type Value []byte

// SyntaxError says what is wrong with a document, and where.
type SyntaxError struct {
	Offset       int // bytes from the start of the document
	Line, Column int // from 1; Column counts bytes
	Msg          string
}

// Error gives the message and the place.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// scanner walks over a document. The first error stays.
type scanner struct {
	b   []byte
	i   int
	err *SyntaxError
}

func (s *scanner) fail(at int, format string, args ...any) bool {
	if s.err == nil {
		head := s.b[:min(at, len(s.b))]
		s.err = &SyntaxError{
			Offset: at,
			Line:   1 + bytes.Count(head, []byte{'\n'}),
			Column: at - bytes.LastIndexByte(head, '\n'),
			Msg:    fmt.Sprintf(format, args...),
		}
	}
	return false
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek skips space and gives the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// Check validates a whole document and gives its one value.
func Check(doc []byte) (Value, error) {
	s := scanner{b: doc, i: len(doc) - len(bytes.TrimPrefix(doc, []byte("\ufeff")))}
	s.space()
	start := s.i
	if s.i == len(doc) {
		s.fail(s.i, "the document is empty")
		return nil, s.err
	}
	if !s.value(0) {
		return nil, s.err
	}
	end := s.i
	if s.peek(); s.i < len(doc) {
		s.fail(s.i, "unexpected %s after the end of the value", show(doc[s.i:]))
		return nil, s.err
	}
	return doc[start:end], nil
}

// value checks one value at depth.
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
		return s.fail(s.i, "nested deeper than %d", MaxDepth)
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return true
	}
	for {
		if s.peek() != '"' {
			return s.fail(s.i, "want a member name, found %s", show(s.b[s.i:]))
		}
		if !s.str() {
			return false
		}
		if s.peek() != ':' {
			return s.fail(s.i, "want ':' after a member name, found %s", show(s.b[s.i:]))
		}
		s.i++
		if !s.value(depth + 1) {
			return false
		}
		if more, ok := s.next('}'); !more {
			return ok
		}
	}
}

func (s *scanner) array(depth int) bool {
	if depth == MaxDepth {
		return s.fail(s.i, "nested deeper than %d", MaxDepth)
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

// next passes over a comma (more) or the closing bracket.
func (s *scanner) next(closing byte) (more, ok bool) {
	switch c := s.peek(); {
	case c == ',':
		s.i++
		return true, true
	case c == closing && s.i < len(s.b):
		s.i++
		return false, true
	}
	return false, s.fail(s.i, "want ',' or '%c', found %s", closing, show(s.b[s.i:]))
}

// str checks a string that begins at s.i.
func (s *scanner) str() bool {
	start, b := s.i, s.b
	i, ascii := s.i+1, true
	for i < len(b) && b[i] != '"' {
		if b[i] >= utf8.RuneSelf {
			ascii = false
		}
		if b[i] == '\\' {
			if !s.escape(i) {
				return false
			}
			i++
		}
		i++
	}
	if i >= len(b) {
		return s.fail(start, "string without end")
	}
	if !ascii && !utf8.Valid(b[start:i]) {
		for k := start; k < i; {
			r, n := utf8.DecodeRune(b[k:i])
			if r == utf8.RuneError && n == 1 {
				return s.fail(k, "byte %#x is not valid UTF-8", b[k])
			}
			k += n
		}
	}
	s.i = i + 1
	return true
}

// escape checks the escape sequence that begins with the backslash at i.
func (s *scanner) escape(i int) bool {
	if i+1 >= len(s.b) {
		return s.fail(i, "string without end")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if _, ok := hex4(s.b[i+2:]); ok {
			return true
		}
	}
	return s.fail(i, "bad escape sequence %s", show(s.b[i:]))
}

// isWord reports whether c may stand in a bare word or number.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '-' || c == '.' || c == '_' || c == '$'
}

func (s *scanner) word() bool {
	start := s.i
	for s.i < len(s.b) && isWord(s.b[s.i]) {
		s.i++
	}
	if s.i == start {
		return s.fail(s.i, "want a value, found %s", show(s.b[s.i:]))
	}
	return true
}

// show quotes the head of b for a message.
func show(b []byte) string {
	if len(b) == 0 {
		return "the end"
	}
	if len(b) > 12 {
		b = b[:12]
	}
	return fmt.Sprintf("%q", b)
}

// skip passes over one value quickly, checking only that strings end and
// brackets balance in number.
func (s *scanner) skip() bool {
	depth := 0
	for {
		switch c := s.peek(); {
		case c == '"':
			if !s.skipString() {
				return false
			}
		case c == '{' || c == '[':
			depth++
			s.i++
		case (c == '}' || c == ']') && depth > 0:
			depth--
			s.i++
		case (c == ',' || c == ':') && depth > 0:
			s.i++
		default:
			if !s.word() {
				return false
			}
		}
		if depth == 0 {
			return true
		}
	}
}

func (s *scanner) skipString() bool {
	start := s.i
	i := s.i + 1
	for {
		k := bytes.IndexByte(s.b[min(i, len(s.b)):], '"')
		if k < 0 {
			return s.fail(start, "string without end")
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

// Trim gives doc without a byte order mark and the space around its value,
// unchecked.
func Trim(doc []byte) Value {
	return bytes.Trim(bytes.TrimPrefix(doc, []byte("\ufeff")), " \t\r\n")
}
