package cdl

import (
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// WriteNcML prints the dimensions, attributes and variable declarations of ds as NcML, an
// XML format, without data (ncdump -x). location is the value of the attribute location.
//
// The output is well-formed XML 1.0. It differs from the output of ncdump as follows: it
// includes groups and every unlimited dimension, escapes names, prints 64-bit integers
// exactly, prints NaN and infinities as "NaN" and "Infinity" as readers of NcML expect,
// and prints all strings of an attribute with a separator. Attributes and names that XML
// cannot represent (control characters, invalid UTF-8) are reported to OnProblem and
// omitted. The error then has the kind ncerr.ErrConvert.
//
// WriteNcML uses only the options HeaderOnly, Coords, Vars, FloatDigits, DoubleDigits,
// FullPrecision and OnProblem. The errors are the same as for [Write].
//
// Source: netcdf-c ncdump, option -x; the NcML 2.2 schema.
func WriteNcML(ctx context.Context, w io.Writer, ds *dataset.Dataset, location string, opts *WriteOptions) error {
	p, err := newPrinter(ctx, w, ds, opts)
	if err != nil {
		return err
	}
	x := &ncml{p}
	loc, _ := xmlText(strings.ToValidUTF8(location, "\uFFFD"))
	x.w.printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	x.w.printf("<netcdf xmlns=\"https://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2\" location=\"%s\">\n", loc)
	if err := x.group(ds.Root(), "  "); err != nil {
		return err
	}
	x.w.str("</netcdf>\n")
	if err := x.w.flush(); err != nil {
		return err
	}
	return errors.Join(p.problems...)
}

// ncml prints NcML with the state of a printer.
type ncml struct{ *printer }

// group prints the content of a group.
func (x *ncml) group(g *dataset.Group, pad string) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	for _, d := range g.Dims() {
		name, ok := x.name(d.Path(), d.Name())
		if !ok {
			continue
		}
		x.w.printf("%s<dimension name=\"%s\" length=\"%d\"", pad, name, d.Len())
		if d.Unlimited() {
			x.w.str(` isUnlimited="true"`)
		}
		x.w.str(" />\n")
	}
	x.attrs(g.Path(), g.Attrs(), pad)
	for _, v := range g.Vars() {
		x.variable(v, pad)
	}
	for _, sub := range g.Groups() {
		name, ok := x.name(sub.Path(), sub.Name())
		if !ok {
			continue
		}
		x.w.printf("%s<group name=\"%s\">\n", pad, name)
		if err := x.group(sub, pad+"  "); err != nil {
			return err
		}
		x.w.printf("%s</group>\n", pad)
	}
	return x.w.err()
}

// name returns a name as XML. If XML cannot represent it, name reports a problem at
// path.
func (x *ncml) name(path, name string) (string, bool) {
	text, ok := xmlText(name)
	if !ok {
		x.problem(path, ncerr.Errorf(ncerr.ErrConvert, "dump", path, "the name has characters that XML cannot represent"))
	}
	return text, ok
}

// variable prints a variable. It prints one empty element if the variable has no
// attributes and the options do not select its data.
func (x *ncml) variable(v *dataset.Var, pad string) {
	name, ok := x.name(v.Path(), v.Name())
	if !ok {
		return
	}
	x.w.printf("%s<variable name=\"%s\"", pad, name)
	empty := false
	for i, d := range v.Dims() {
		shape, _ := xmlText(strings.ToValidUTF8(d.Name(), "\uFFFD")) // an invalid name is reported with its declaration
		x.w.str([]string{` shape="`, " "}[min(i, 1)] + shape)
		empty = empty || d.Unlimited() && d.Len() == 0
	}
	if v.Rank() > 0 {
		x.w.char('"')
	}
	attrs := v.Attrs()
	if len(attrs) == 0 && (x.opts.HeaderOnly || empty || !x.opts.Selects(v)) {
		x.w.printf(" type=\"%s\" />\n", v.Type())
		return
	}
	x.w.printf(" type=\"%s\">\n", v.Type())
	x.attrs(v.Path(), attrs, pad+"  ")
	x.w.printf("%s</variable>\n", pad)
}

func (x *ncml) attrs(path string, attrs []dataset.Attr, pad string) {
	for _, a := range attrs {
		name, ok := xmlText(a.Name)
		typ, value, good := x.attrText(a)
		if !ok || !good {
			key := path + ":" + a.Name
			x.problem(key, ncerr.Errorf(ncerr.ErrConvert, "dump", key, "the attribute has characters that XML cannot represent"))
			continue
		}
		x.w.printf("%s<attribute name=\"%s\"%s value=\"%s\" />\n", pad, name, typ, value)
	}
}

// attrText returns the type and separator of an attribute as XML attributes, and the
// value. ok is false if XML cannot represent the value.
func (x *ncml) attrText(a dataset.Attr) (typ, value string, ok bool) {
	switch v := a.Value.(type) {
	case string:
		value, ok = xmlText(strings.TrimRight(v, "\x00"))
		return "", value, ok
	case []string:
		sep := separator(v)
		value, ok = xmlText(strings.Join(v, sep))
		if len(v) > 1 {
			sep, _ = xmlText(sep)
			typ = ` separator="` + sep + `"`
		}
		return ` type="string"` + typ, value, ok && sep != ""
	}
	typ = ` type="` + a.Type.String() + `"`
	text := x.f.appendList(nil, a.Value)
	return typ, string(text), true
}

// appendList appends numbers separated by spaces, without suffixes.
func (f *formatter) appendList(dst []byte, value any) []byte {
	one := func(dst []byte, v float64, bits int) []byte {
		switch {
		case math.IsNaN(v):
			return append(dst, "NaN"...)
		case math.IsInf(v, 0):
			return append(dst, map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]...)
		}
		dst = f.appendAttrFloat(dst, v, bits)
		if bits == 32 {
			dst = dst[:len(dst)-1] // the suffix f
		}
		return dst
	}
	switch v := value.(type) {
	case []int8:
		return appendPlain(dst, v)
	case []int16:
		return appendPlain(dst, v)
	case []int32:
		return appendPlain(dst, v)
	case []int64:
		return appendPlain(dst, v)
	case []uint8:
		return appendPlain(dst, v)
	case []uint16:
		return appendPlain(dst, v)
	case []uint32:
		return appendPlain(dst, v)
	case []uint64:
		return appendPlain(dst, v)
	case []float32:
		for i, n := range v {
			dst = one(appendBlank(dst, i), float64(n), 32)
		}
	case []float64:
		for i, n := range v {
			dst = one(appendBlank(dst, i), n, 64)
		}
	}
	return dst
}

func appendPlain[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](dst []byte, list []T) []byte {
	for i, n := range list {
		dst = appendBlank(dst, i)
		if n < 0 {
			dst = strconv.AppendInt(dst, int64(n), 10)
		} else {
			dst = strconv.AppendUint(dst, uint64(n), 10)
		}
	}
	return dst
}

func appendBlank(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ' ')
	}
	return dst
}

// separator returns a character that occurs in no string of the list. It returns "" if
// every candidate occurs.
func separator(list []string) string {
	for _, sep := range []string{"|", ";", ",", "~", "^", "\u00a6", "\u2016"} {
		if !strings.Contains(strings.Join(list, ""), sep) {
			return sep
		}
	}
	return ""
}

// xmlText escapes a string for an XML attribute. It returns false if XML 1.0 cannot
// represent a character of the string.
func xmlText(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"':
			b.WriteString("&quot;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '\n', r == '\r', r == '\t':
			b.WriteString("&#x" + strings.ToUpper(strconv.FormatInt(int64(r), 16)) + ";")
		case r < ' ', r == 0xfffe, r == 0xffff:
			return "", false
		case r == 0x7f:
			b.WriteString("&#127;") // ncdump writes DEL as a character reference
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), true
}
