package cdl

import (
	"fmt"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// text parses a string constant.
func (l *lexer) text(pos Pos) (token, error) {
	l.take()
	l.buf = l.buf[:0]
	for {
		c, ok := l.peek(0)
		if !ok {
			if err := l.readErr(); err != nil {
				return token{}, err
			}
			return token{}, l.fail(pos, "unterminated string")
		}
		if len(l.buf) >= maxToken {
			return token{}, fail(ncerr.ErrLimit, l.name, pos, "the string has more than the limit of %d bytes", maxToken)
		}
		at := l.pos
		l.take()
		switch c {
		case '"':
			s := string(l.buf)
			return token{kind: tokValue, pos: pos, text: strconv.Quote(shorten(s)), val: Value{Pos: pos, Kind: Text, Text: s}}, nil
		case '\\':
			e, err := l.escape(at)
			if err != nil {
				return token{}, err
			}
			l.buf = append(l.buf, e)
		default:
			l.buf = append(l.buf, c)
		}
	}
}

// char parses a character constant: one byte in single quotes.
func (l *lexer) char(pos Pos) (token, error) {
	l.take()
	c, ok := l.peek(0)
	if !ok || c == '\n' || c == '\'' {
		return token{}, l.fail(pos, "a character constant must contain one character")
	}
	at := l.pos
	if l.take(); c == '\\' {
		var err error
		if c, err = l.escape(at); err != nil {
			return token{}, err
		}
	}
	if end, _ := l.peek(0); end != '\'' {
		return token{}, l.fail(pos, "a character constant must contain one single-byte character")
	}
	l.take()
	return token{kind: tokValue, pos: pos, text: fmt.Sprintf("%q", rune(c)), val: Value{Pos: pos, Kind: Char, Bits: uint64(c)}}, nil
}

// simpleEscapes maps the letter after a backslash to its byte. \? is DEL, as in ncgen.
var simpleEscapes = map[byte]byte{
	'a': 7, 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '?': 0x7f,
}

// escape decodes the bytes after a backslash in a string or character constant: a letter,
// one to three octal digits, x and two hexadecimal digits, or any other byte, which
// represents itself.
func (l *lexer) escape(pos Pos) (byte, error) {
	c, ok := l.peek(0)
	if !ok {
		return 0, l.fail(pos, "the file ends after a backslash")
	}
	l.take()
	if b, ok := simpleEscapes[c]; ok {
		return b, nil
	}
	switch {
	case c >= '0' && c <= '7':
		n := int(c - '0')
		for range 2 {
			d, _ := l.peek(0)
			if d < '0' || d > '7' {
				break
			}
			n = n*8 + int(l.take()-'0')
		}
		if n > 255 {
			return 0, l.fail(pos, `octal escape \%o exceeds one byte`, n)
		}
		return byte(n), nil
	case c == 'x' || c == 'X':
		hi, _ := l.peek(0)
		lo, _ := l.peek(1)
		n, err := strconv.ParseUint(string([]byte{hi, lo}), 16, 8)
		if err != nil {
			return 0, l.fail(pos, `\x needs two hexadecimal digits`)
		}
		l.take()
		l.take()
		return byte(n), nil
	}
	return c, nil
}

// datasetName parses the name between the keyword "netcdf" and the brace. It removes
// white space and control characters and decodes escapes.
func (l *lexer) datasetName() (string, error) {
	l.buf = l.buf[:0]
	for {
		c, ok := l.peek(0)
		switch {
		case !ok:
			if err := l.readErr(); err != nil {
				return "", err
			}
			return "", l.fail(l.pos, `expected "{" after the dataset's name, found end of file`)
		case c == '{':
			return string(l.buf), nil
		case len(l.buf) >= maxName:
			return "", fail(ncerr.ErrLimit, l.name, l.pos, "the name has more than the limit of %d bytes", maxName)
		}
		if l.take(); c == '\\' {
			if next, ok := l.peek(0); ok && next >= ' ' {
				l.buf = append(l.buf, l.escaped())
			}
			continue
		}
		if c > ' ' {
			l.buf = append(l.buf, c)
		}
	}
}

// shorten truncates a string for use in a message.
func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
