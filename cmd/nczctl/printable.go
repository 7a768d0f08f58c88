package main

import (
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// printable is a writer that escapes control characters and invalid UTF-8. Names,
// messages and documents from datasets, servers and plugins therefore cannot
// control the terminal. Newlines and tabs are not escaped. Characters are escaped as
// in JSON, so JSON output keeps its meaning.
type printable struct {
	w    io.Writer
	mu   sync.Mutex
	part []byte // the beginning of a character that is not yet complete
	buf  []byte
}

// Write implements io.Writer.
func (p *printable) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.part) == 0 && isPlain(text) {
		return p.w.Write(text)
	}
	rest := append(p.part, text...) //nolint:gocritic // part is replaced before it is used again
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

// flush writes the bytes of an incomplete character as escapes.
func (p *printable) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.part {
		_, _ = fmt.Fprintf(p.w, `\x%02x`, c) // the underlying writer keeps the error
	}
	p.part = nil
}

// isPlain reports whether text contains only printable ASCII, newlines and tabs.
func isPlain(text []byte) bool {
	for _, c := range text {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// appendPrintable appends the character r or its escape to dst. raw is the encoding
// of r.
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
