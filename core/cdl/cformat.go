package cdl

import (
	"fmt"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// verb is a format of C's printf, taken from the attribute C_format of a variable.
//
// Source: netcdf-c ncdump, attribute C_format.
type verb struct {
	spec   string // format for package fmt
	unsign uint   // width in bits to which integers are converted as unsigned; 0 for no conversion
}

// ownFormat returns the format of v's values. It returns nil if v has no format that
// fits its type. An explicit precision or full precision overrides the format.
func (p *printer) ownFormat(v *dataset.Var) *verb {
	a, err := v.Attr("C_format")
	text, ok := a.Value.(string)
	asked := v.Type() == dtype.NCFloat && p.opts.FloatDigits > 0 || v.Type() == dtype.NCDouble && p.opts.DoubleDigits > 0
	if err != nil || !ok || asked || p.opts.FullPrecision || len(text) >= 100 {
		return nil
	}
	return parseVerb(text, v.Type())
}

// parseVerb parses a printf format. It returns nil unless the format has exactly one
// conversion and that conversion fits nc.
func parseVerb(text string, nc dtype.NC) *verb {
	before, rest, ok := strings.Cut(text, "%")
	if !ok || strings.Contains(rest, "%") || nc == dtype.NCChar || nc == dtype.NCString {
		return nil
	}
	flags := span(rest, "-+ #0")
	width := span(rest[len(flags):], "0123456789")
	at := len(flags) + len(width)
	prec := ""
	if strings.HasPrefix(rest[at:], ".") {
		prec = "." + span(rest[at+1:], "0123456789")
		at += len(prec)
	}
	at += len(span(rest[at:], "hlqLjzt"))
	if at >= len(rest) || len(width) > 2 || len(prec) > 3 {
		return nil
	}
	v, conv := &verb{}, rest[at]
	switch {
	case strings.IndexByte("eEfFgG", conv) >= 0 && isFloat(nc):
		if prec == "" {
			prec = ".6" // C's default; Go's default is the shortest exact form
		}
	case strings.IndexByte("di", conv) >= 0 && !isFloat(nc):
		conv = 'd'
	case strings.IndexByte("uoxX", conv) >= 0 && !isFloat(nc):
		v.unsign = 32
		if nc == dtype.NCInt64 || nc == dtype.NCUInt64 {
			v.unsign = 64
		}
		if conv == 'u' {
			conv = 'd'
		}
	default:
		return nil
	}
	v.spec = before + "%" + flags + width + prec + string(rune(conv)) + rest[at+1:]
	return v
}

// span returns the longest prefix of s that consists of bytes in set.
func span(s, set string) string {
	n := 0
	for n < len(s) && strings.IndexByte(set, s[n]) >= 0 {
		n++
	}
	return s[:n]
}

// appendInt appends an integer, converted to unsigned if the format requires it.
func (v *verb) appendInt(dst []byte, n int64) []byte {
	if v.unsign > 0 {
		return fmt.Appendf(dst, v.spec, uint64(n)<<(64-v.unsign)>>(64-v.unsign))
	}
	return fmt.Appendf(dst, v.spec, n)
}

func (v *verb) appendUint(dst []byte, n uint64) []byte { return fmt.Appendf(dst, v.spec, n) }

func (v *verb) appendFloat(dst []byte, f float64) []byte { return fmt.Appendf(dst, v.spec, f) }
