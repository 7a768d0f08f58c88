package main

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// printable is a writer of text for people. It writes control characters and
// bytes that are not UTF-8 as escapes, so that no name, message or document
// from a dataset, a server or a plugin drives the terminal. Newlines and tabs
// pass. The escapes of characters are those of JSON, so that JSON stays what
// it was.
type printable struct {
	w    io.Writer
	mu   sync.Mutex
	part []byte // the start of a character whose end has not come yet
	buf  []byte
}

// Write implements io.Writer.
func (p *printable) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.part) == 0 && isPlain(text) {
		return p.w.Write(text)
	}
	rest := append(p.part, text...) //nolint:gocritic // part is replaced below
	p.buf = p.buf[:0]
	for len(rest) > 0 && (utf8.FullRune(rest) || len(rest) >= utf8.UTFMax) {
		r, n := utf8.DecodeRune(rest)
		p.buf = appendPrintable(p.buf, r, rest[:n])
		rest = rest[n:]
	}
	p.part = append([]byte(nil), rest...)
	if _, err := p.w.Write(p.buf); err != nil {
		return 0, err
	}
	return len(text), nil
}

// flush writes what is left of a character that never ended.
func (p *printable) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.part {
		_, _ = fmt.Fprintf(p.w, `\x%02x`, c) // an error stays in the writer below
	}
	p.part = nil
}

// isPlain reports whether text consists of printable ASCII, newlines and tabs.
func isPlain(text []byte) bool {
	for _, c := range text {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// appendPrintable appends a character, or its escape. raw is its encoding.
func appendPrintable(dst []byte, r rune, raw []byte) []byte {
	switch {
	case r == '\n' || r == '\t':
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(dst, `\x%02x`, raw[0])
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return append(dst, raw...)
}
