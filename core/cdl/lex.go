package cdl

import (
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// tokenKind is the class of a token.
type tokenKind uint8

const (
	tokEOF     tokenKind = iota
	tokIdent             // a name; text is unescaped
	tokPath              // an absolute path; text is unescaped
	tokSection           // a section keyword with its colon; see word
	tokValue             // a number, character or string constant in val
	tokPunct             // one punctuation character
)

type token struct {
	kind tokenKind
	pos  Pos
	text string // also used in messages
	val  Value
}

// lexer splits CDL input into tokens. It stops at the first error.
type lexer struct {
	r    io.Reader
	err  error // error from r, reported after the bytes before it
	win  []byte
	at   int   // index in win of the next byte
	base int64 // offset in the input of the first byte of win
	name string
	pos  Pos // position of the next byte
	buf  []byte
}

// windowSize is the number of bytes of the input in memory.
const windowSize = 64 << 10

// maxToken is the maximum length of a string in bytes, and maxName is the maximum length
// of a name.
const (
	maxToken = 1 << 28
	maxName  = 1 << 16
)

// newLexer returns a lexer for src from the byte at offset, whose position is pos.
func newLexer(src io.ReaderAt, offset int64, pos Pos, name string) *lexer {
	r := io.NewSectionReader(src, offset, math.MaxInt64-offset)
	return &lexer{r: r, win: make([]byte, 0, windowSize), base: offset, name: name, pos: pos}
}

// fail returns an error of the given kind at pos.
func fail(kind ncerr.Kind, name string, pos Pos, format string, args ...any) error {
	return ncerr.Errorf(kind, "read cdl", name+":"+pos.String(), format, args...)
}

func (l *lexer) fail(pos Pos, format string, args ...any) error {
	return fail(ncerr.ErrInvalid, l.name, pos, format, args...)
}

// offset returns the offset of the next byte in the input.
func (l *lexer) offset() int64 { return l.base + int64(l.at) }

// peek returns the byte n bytes ahead without consuming it. It returns false at the end
// of the input.
func (l *lexer) peek(n int) (byte, bool) {
	if l.at+n < len(l.win) {
		return l.win[l.at+n], true
	}
	return l.peekBeyond(n)
}

// peekBeyond is like peek for bytes beyond the window.
func (l *lexer) peekBeyond(n int) (byte, bool) {
	for l.at+n >= len(l.win) {
		if !l.more() {
			return 0, false
		}
	}
	return l.win[l.at+n], true
}

// more moves the unread bytes to the front of the window and reads more input. It returns
// false at the end or after an error.
func (l *lexer) more() bool {
	if l.err != nil {
		return false
	}
	l.base += int64(l.at)
	l.win = l.win[:copy(l.win, l.win[l.at:])]
	l.at = 0
	for range 100 {
		n, err := l.r.Read(l.win[len(l.win):cap(l.win)])
		l.win, l.err = l.win[:len(l.win)+n], err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	l.err = io.ErrNoProgress
	return false
}

// take consumes the next byte. The caller has checked with peek that it exists.
func (l *lexer) take() byte {
	b := l.win[l.at]
	l.at++
	if b == '\n' {
		l.pos.Line++
		l.pos.Col = 1
	} else {
		l.pos.Col++
	}
	return b
}

// readErr returns the error from the reader that made peek fail. It returns nil at the
// end of the input.
func (l *lexer) readErr() error {
	if l.at == len(l.win) && l.err != nil && !errors.Is(l.err, io.EOF) {
		return ncerr.Wrap("read cdl", l.name, l.err)
	}
	return nil
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	if err := l.skipSpace(); err != nil {
		return token{}, err
	}
	pos := l.pos
	c, ok := l.peek(0)
	if !ok {
		return token{kind: tokEOF, pos: pos, text: "end of file"}, l.readErr()
	}
	second, _ := l.peek(1)
	switch {
	case c == '"':
		return l.text(pos)
	case c == '\'':
		return l.char(pos)
	case isDigit(c), c == '.' && isDigit(second):
		return l.number(pos)
	case c == '+' || c == '-':
		if isDigit(second) || second == '.' {
			return l.number(pos)
		}
		if isIdentStart(second) {
			return l.signedWord(pos)
		}
	case c == '/':
		return l.path(pos)
	case isIdentStart(c):
		return l.word(pos)
	}
	return token{kind: tokPunct, pos: pos, text: string([]byte{l.take()})}, nil
}

// skipMark skips a UTF-8 byte order mark at the beginning of the input.
func (l *lexer) skipMark() {
	for i, want := range []byte("\xef\xbb\xbf") {
		if c, ok := l.peek(i); !ok || c != want {
			return
		}
	}
	l.at += 3
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() error {
	for {
		c, ok := l.peek(0)
		if !ok {
			return l.readErr()
		}
		second, _ := l.peek(1)
		switch {
		case c == ' ', c >= '\t' && c <= '\r':
			l.take()
		case c == '/' && second == '/':
			l.skipLine()
		case c == '/' && second == '*':
			if err := l.skipBlock(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (l *lexer) skipLine() {
	for {
		if c, ok := l.peek(0); !ok || c == '\n' {
			return
		}
		l.take()
	}
}

func (l *lexer) skipBlock() error {
	pos := l.pos
	l.take()
	l.take()
	for {
		c, ok := l.peek(0)
		if !ok {
			if err := l.readErr(); err != nil {
				return err
			}
			return l.fail(pos, "unterminated comment")
		}
		l.take()
		if second, _ := l.peek(0); c == '*' && second == '/' {
			l.take()
			return nil
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isIdentStart reports whether a name can start with c: a letter, an underscore, a byte
// of a UTF-8 sequence or a backslash.
func isIdentStart(c byte) bool {
	return isLetter(c) || c == '_' || c >= 0x80 || c == '\\'
}

func isIdentPart(c byte) bool {
	return isIdentStart(c) || isDigit(c) || strings.IndexByte(".@+-%", c) >= 0
}

// ident parses a name and decodes its escapes: a backslash before a byte means that byte,
// and \%hh means a control character, as in the output of ncdump.
func (l *lexer) ident() (string, error) {
	l.buf = l.buf[:0]
	for {
		c, ok := l.peek(0)
		if !ok || !isIdentPart(c) {
			return string(l.buf), l.readErr()
		}
		if len(l.buf) >= maxName {
			return "", fail(ncerr.ErrLimit, l.name, l.pos, "the name has more than the limit of %d bytes", maxName)
		}
		pos := l.pos
		l.take()
		if c == '\\' {
			if c, ok = l.peek(0); !ok || c < ' ' || c == 0x7f || c == '/' || isLetter(c) {
				return "", l.fail(pos, "a backslash in a name must precede a special character or a digit")
			}
			c = l.escaped()
		}
		l.buf = append(l.buf, c)
	}
}

// escaped decodes the bytes after a backslash in a name: a byte, or %hh for a control
// character or a percent sign.
func (l *lexer) escaped() byte {
	c := l.take()
	if c != '%' {
		return c
	}
	hi, _ := l.peek(0)
	lo, _ := l.peek(1)
	code, err := strconv.ParseUint(string([]byte{hi, lo}), 16, 8)
	if err != nil || code >= ' ' && code != 0x7f && code != '%' {
		return c
	}
	l.take()
	l.take()
	return byte(code)
}

// word parses a name, or a section keyword if a colon follows directly.
func (l *lexer) word(pos Pos) (token, error) {
	name, err := l.ident()
	if err != nil {
		return token{}, err
	}
	switch name {
	case "types", "dimensions", "variables", "data", "group":
		if c, _ := l.peek(0); c == ':' {
			l.take()
			return token{kind: tokSection, pos: pos, text: name}, nil
		}
	}
	return token{kind: tokIdent, pos: pos, text: name}, nil
}

// signedWord parses -Infinity and similar words.
func (l *lexer) signedWord(pos Pos) (token, error) {
	sign := l.take()
	name, err := l.ident()
	if err != nil {
		return token{}, err
	}
	text := string(rune(sign)) + name
	val, ok := specialFloat(text)
	if !ok {
		return token{}, l.fail(pos, "%q is not a number", text)
	}
	val.Pos = pos
	return token{kind: tokValue, pos: pos, text: text, val: val}, nil
}

// path parses / or /name/name.
func (l *lexer) path(pos Pos) (token, error) {
	var b strings.Builder
	for {
		if c, _ := l.peek(0); c != '/' {
			break
		}
		b.WriteByte(l.take())
		if c, _ := l.peek(0); !isIdentStart(c) {
			break
		}
		name, err := l.ident()
		if err != nil {
			return token{}, err
		}
		b.WriteString(name)
		if b.Len() > maxName {
			return token{}, fail(ncerr.ErrLimit, l.name, pos, "the path has more than the limit of %d bytes", maxName)
		}
	}
	return token{kind: tokPath, pos: pos, text: b.String()}, l.readErr()
}

// number scans all bytes that may belong to a number and then parses them.
func (l *lexer) number(pos Pos) (token, error) {
	if val, ok := l.plainNumber(); ok {
		val.Pos = pos
		return token{kind: tokValue, pos: pos, val: val}, nil
	}
	l.buf = append(l.buf[:0], l.take())
	hex := false
	for {
		c, ok := l.peek(0)
		prev := l.buf[len(l.buf)-1] | 0x20
		sign := (c == '+' || c == '-') && prev == 'e' && !hex
		if !ok || !isDigit(c) && !isLetter(c) && c != '.' && c != '_' && !sign {
			break
		}
		if len(l.buf) > 1024 {
			return token{}, l.fail(pos, "the number has more than the limit of 1024 characters")
		}
		hex = hex || c|0x20 == 'x'
		l.buf = append(l.buf, l.take())
	}
	text := string(l.buf)
	val, why := parseNumber(text)
	if why != "" {
		return token{}, l.fail(pos, "constant %s: %s", text, why)
	}
	val.Pos = pos
	return token{kind: tokValue, pos: pos, text: text, val: val}, l.readErr()
}
