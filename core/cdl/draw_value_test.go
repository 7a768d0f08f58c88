package cdl_test

import (
	"math"
	"strconv"
	"strings"
)

// value returns a constant of a type.
func (d *generator) value(typ string) string {
	switch typ {
	case "char", "string":
		return d.text(1 + d.IntN(30))
	case "float":
		return d.float(32)
	case "double":
		return d.float(64)
	}
	return d.integer(typ)
}

// intSuffixes are the suffixes of each integer type.
var intSuffixes = map[string]struct {
	bits     int
	unsigned bool
	suffix   []string
}{
	"byte": {8, false, []string{"b", "B"}}, "ubyte": {8, true, []string{"ub", "UB"}}, "short": {16, false, []string{"s", "S"}}, "ushort": {16, true, []string{"us", "US"}},
	"int": {32, false, []string{"", "l", "L"}}, "uint": {32, true, []string{"u", "U", "ul"}}, "int64": {64, false, []string{"ll", "LL"}}, "uint64": {64, true, []string{"ull", "ULL"}},
}

// integer returns an integer constant.
func (d *generator) integer(typ string) string {
	form := intSuffixes[typ]
	n := d.Uint64() >> (64 - form.bits)
	switch d.IntN(6) {
	case 0:
		n = uint64(d.IntN(100))
	case 1:
		n = pick(d, 0, 1, uint64(math.MaxUint64)>>(64-form.bits), uint64(math.MaxUint64)>>(65-form.bits))
	}
	suffix := pick(d, form.suffix...)
	switch {
	case typ != "byte" && d.maybe(9):
		return strconv.Itoa(d.IntN(100)) // without a type suffix
	case d.maybe(9):
		return "0" + strconv.FormatInt(int64(d.IntN(100)), 8) + suffix
	}
	if form.unsigned {
		return strconv.FormatUint(n, 10) + suffix
	}
	return strconv.FormatInt(int64(n<<(64-form.bits))>>(64-form.bits), 10) + suffix
}

// float returns a floating-point constant.
func (d *generator) float(bits int) string {
	suffix := map[int]string{32: "f", 64: ""}[bits]
	switch d.IntN(12) {
	case 0:
		return pick(d, "NaN", "nan") + suffix
	case 1:
		return pick(d, "Infinity", "-Infinity") + suffix
	case 2:
		return strconv.Itoa(d.IntN(1000) - 500)
	case 3:
		return pick(d, "0.", ".5", "-1.", "1e3", "1.5e-7", "+2.25", "100000000.", "1e20") + suffix
	}
	v := d.NormFloat64() * math.Pow(10, float64(d.IntN(60)-30))
	text := strconv.FormatFloat(v, pick(d, byte('g'), 'e'), pick(d, -1, 3, 12), bits)
	if !strings.ContainsAny(text, ".e") {
		text += "."
	}
	return text + suffix
}

// text returns a string constant of n characters.
func (d *generator) text(n int) string {
	var b strings.Builder
	b.WriteByte('"')
	for range n {
		b.WriteString(pick(d, "a", "b", "Z", "7", " ", "é", "Κ", `\"`, `\\`, `\t`, "'", ",", ";", "}", "//", `\'`, `\?`, "{", "%", `\101`))
	}
	return b.String() + `"`
}

// chars returns n bytes, as single characters or as a string. Unless full is set, the
// string may be shorter. ncgen does not pad short strings in braces, and crashes if the
// strings along an unlimited dimension lack as many characters as one of them has.
func (d *generator) chars(n int, apos, full bool) []string {
	var items []string
	for range n {
		items = append(items, pick(d, "a", "b", "Z", "7", " ", `\"`, `\\`, `\t`, ",", ";", "}", `\'`, `\101`))
	}
	if apos {
		for i := range items {
			items[i] = "'" + items[i] + "'"
		}
		return items
	}
	if !full && d.maybe(3) {
		items = items[:1+d.IntN(n)]
	}
	return []string{`"` + strings.Join(items, "") + `"`}
}
