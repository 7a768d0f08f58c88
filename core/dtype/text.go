package dtype

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeText fills dst from fixed-length text; all strings share one
// allocation that holds nothing but them.
func decodeText(dst []string, src []byte, t Type) error {
	var all strings.Builder
	ends := make([]int, len(dst))
	for i := range dst {
		cell := src[i*t.Size : (i+1)*t.Size]
		switch t.Kind {
		case Bytes, Char:
			all.Write(bytes.TrimRight(cell, "\x00"))
		case Unicode:
			if err := writeUCS4(&all, cell, t.Order); err != nil {
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

// writeUCS4 writes cell as UTF-8, without trailing NULs.
func writeUCS4(w *strings.Builder, cell []byte, o Order) error {
	n := len(cell)
	for n >= 4 && cell[n-4]|cell[n-3]|cell[n-2]|cell[n-1] == 0 {
		n -= 4
	}
	for c := cell[:n]; len(c) >= 4; c = c[4:] {
		v := uint32(c[0]) | uint32(c[1])<<8 | uint32(c[2])<<16 | uint32(c[3])<<24
		if o == Big {
			v = uint32(c[3]) | uint32(c[2])<<8 | uint32(c[1])<<16 | uint32(c[0])<<24
		}
		if v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
			return fmt.Errorf("code point %#x", v)
		}
		w.WriteRune(rune(v))
	}
	return nil
}

// encodeText stores src as fixed-length text, padded with NULs.
func encodeText(dst []byte, t Type, src []string) error {
	for i, s := range src {
		cell := dst[i*t.Size : (i+1)*t.Size]
		clear(cell)
		if strings.HasSuffix(s, "\x00") {
			return badValue(i, fmt.Sprintf("%q", s), t.String()+", which cannot end in NUL")
		}
		switch t.Kind {
		case Bytes, Char:
			if len(s) > t.Size {
				return badValue(i, fmt.Sprintf("%q (%d bytes)", clip(s), len(s)), t.String())
			}
			copy(cell, s)
		case Unicode:
			if !utf8.ValidString(s) || 4*utf8.RuneCountInString(s) > t.Size {
				return badValue(i, fmt.Sprintf("%q", clip(s)), t.String())
			}
			putUCS4(cell, s, t.Order)
		default:
			return badType("encode", t, src)
		}
	}
	return nil
}

func putUCS4(cell []byte, s string, o Order) {
	for _, r := range s {
		v := uint32(r)
		if o == Big {
			cell[0], cell[1], cell[2], cell[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
		} else {
			cell[0], cell[1], cell[2], cell[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
		cell = cell[4:]
	}
}

// CheckUTF8 refuses value s of a slice, number i, with ncerr.ErrConvert when it
// is not UTF-8: text of type String cannot hold it.
func CheckUTF8(i int, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return badValue(i, fmt.Sprintf("%q, which is not UTF-8,", clip(s)), "text of variable length")
}

// clip shortens text for error messages.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
