package dtype

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeText decodes fixed-length strings into dst. The strings share one allocation that
// holds only their bytes.
func decodeText(dst []string, src []byte, t Type) error {
	var all strings.Builder
	ends := make([]int, len(dst))
	for i := range dst {
		elem := src[i*t.Size : (i+1)*t.Size]
		switch t.Kind {
		case Bytes, Char:
			all.Write(bytes.TrimRight(elem, "\x00"))
		case Unicode:
			if err := writeUCS4(&all, elem, t.Order); err != nil {
				return badValue(i, err, "text")
			}
		default:
			return badType("decode", t, dst)
		}
		ends[i] = all.Len()
	}
	text, at := all.String(), 0
	for i, end := range ends {
		dst[i], at = text[at:end], end
	}
	return nil
}

// writeUCS4 writes the string in one element as UTF-8, without trailing NULs.
func writeUCS4(w *strings.Builder, elem []byte, o Order) error {
	n := len(elem)
	for n >= 4 && elem[n-4]|elem[n-3]|elem[n-2]|elem[n-1] == 0 {
		n -= 4
	}
	for c := elem[:n]; len(c) >= 4; c = c[4:] {
		v := uint32(c[0]) | uint32(c[1])<<8 | uint32(c[2])<<16 | uint32(c[3])<<24
		if o == Big {
			v = uint32(c[3]) | uint32(c[2])<<8 | uint32(c[1])<<16 | uint32(c[0])<<24
		}
		if v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
			return fmt.Errorf("invalid code point %#x", v)
		}
		w.WriteRune(rune(v))
	}
	return nil
}

// encodeText stores src as fixed-length strings, padded with NULs.
func encodeText(dst []byte, t Type, src []string) error {
	for i, s := range src {
		elem := dst[i*t.Size : (i+1)*t.Size]
		clear(elem)
		if strings.HasSuffix(s, "\x00") {
			return badValue(i, fmt.Sprintf("%q, which ends in NUL,", clip(s)), "text of fixed length")
		}
		switch t.Kind {
		case Bytes, Char:
			if len(s) > t.Size {
				return badValue(i, fmt.Sprintf("%q (%d bytes)", clip(s), len(s)), fmt.Sprintf("%d bytes", t.Size))
			}
			copy(elem, s)
		case Unicode:
			if !utf8.ValidString(s) || 4*utf8.RuneCountInString(s) > t.Size {
				return badValue(i, fmt.Sprintf("%q", clip(s)), t.String())
			}
			putUCS4(elem, s, t.Order)
		default:
			return badType("encode", t, src)
		}
	}
	return nil
}

func putUCS4(elem []byte, s string, o Order) {
	for _, r := range s {
		v := uint32(r)
		if o == Big {
			elem[0], elem[1], elem[2], elem[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
		} else {
			elem[0], elem[1], elem[2], elem[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
		elem = elem[4:]
	}
}

// CheckUTF8 returns an error of kind ncerr.ErrConvert if s, element i of a slice, is not
// valid UTF-8, which type String requires.
func CheckUTF8(i int, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return badValue(i, fmt.Sprintf("%q, which is not UTF-8,", clip(s)), "a string of variable length")
}

// clip shortens a string for error messages.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
