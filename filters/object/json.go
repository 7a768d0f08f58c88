package object

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// style describes how JSON is written.
type style struct {
	ascii bool // all characters outside ASCII are escaped
	loose bool // strings may contain unescaped control characters
	// indent is the white space in bytes that another writer puts at the start of each
	// line, for each level of nesting, and gap is the white space that it puts after each
	// element.
	indent, gap int64
}

// maxSpace is the largest amount of white space, in bytes, that indent and separators
// may request.
const maxSpace = 1 << 10

// spaces returns the maximum white space, in bytes, of n elements in the given number
// of lists.
func (s *style) spaces(n, lists int64, rank int) int64 {
	lines := n + 2*lists + int64(rank) + 8
	return lines * (1 + s.indent*int64(rank+2) + s.gap)
}

func jsonDescription() []driver.Param {
	list := []driver.Param{
		{Name: "encoding", Type: driver.TextParam, Default: "utf-8", Doc: "utf-8 or ascii"},
		{Name: "ensure_ascii", Type: driver.BoolParam, Default: "true", Doc: "escape characters outside ASCII"},
		{Name: "strict", Type: driver.BoolParam, Default: "true", Doc: "reject control characters in strings"},
		{Name: "indent", Type: driver.IntParam, Min: math.MinInt32, Max: maxSpace, Doc: "number of spaces, or a string; only for reading"},
		{Name: "separators", Type: driver.ListParam, Doc: "strings between elements; only for reading"},
	}
	for _, name := range pythonParams {
		list = append(list, driver.Param{Name: name, Type: driver.BoolParam, Default: "true", Doc: "only used by Python"})
	}
	return list
}

// pythonParams do not affect the lists that this package accepts.
var pythonParams = [...]string{"skipkeys", "check_circular", "allow_nan", "sort_keys"}

// jsonParams reads the parameters, most of which matter only to Python. The encoder
// always writes one line and ignores indent. The decoder reads what other writers wrote
// with these parameters.
func jsonParams(p *filter.Params) style {
	switch enc := strings.ToLower(p.Text("encoding")); enc {
	case "utf-8", "utf8", "ascii", "us-ascii":
	default:
		p.Fail("encoding", "unsupported encoding %q", enc)
	}
	s := style{ascii: p.Bool("ensure_ascii")}
	s.loose = !p.Bool("strict")
	for _, name := range pythonParams {
		p.Bool(name)
	}
	if p.IsText("indent") {
		s.indent = space(p, "indent", p.Text("indent"))
	} else {
		s.indent = max(0, int64(p.Int("indent")))
	}
	if p.Has("indent") {
		s.gap = 1 // Python's usual separator
	}
	if seps := p.Texts("separators"); len(seps) > 0 {
		s.gap = space(p, "separators", seps[0])
	}
	return s
}

// space returns the length of a string to be written between elements.
func space(p *filter.Params, name, text string) int64 {
	if len(text) > maxSpace {
		p.Fail(name, "the string is longer than %d bytes", maxSpace)
	}
	return int64(len(text))
}

// jsonReader reads JSON like Python's json module, which accepts NaN and Infinity as numbers.
type jsonReader struct {
	src   []byte
	at    int
	depth int
	fresh bool // just after the start of a list
	loose bool // copy of style.loose
	bad   error
}

func (r *jsonReader) err() error { return r.bad }

func (r *jsonReader) fail(format string, args ...any) {
	if r.bad == nil {
		r.bad = filter.Corrupt("at byte %d: "+format, append([]any{r.at}, args...)...)
	}
}

// peek skips white space and returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	for ; r.at < len(r.src); r.at++ {
		switch r.src[r.at] {
		case ' ', '\t', '\n', '\r':
		default:
			return r.src[r.at]
		}
	}
	return 0
}

func (r *jsonReader) list() int {
	if r.peek() != '[' {
		r.fail(`expected "["`)
		return -1
	}
	r.at++
	r.depth++
	r.fresh = true
	return -1
}

func (r *jsonReader) more() bool {
	if r.bad != nil {
		return false
	}
	c := r.peek()
	fresh := r.fresh
	r.fresh = false
	switch {
	case c == ']':
		r.at++
		r.depth--
		return false
	case fresh:
		return true
	case c == ',':
		r.at++
		if r.peek() != ']' {
			return true
		}
	}
	r.fail(`expected "," or "]"`)
	return false
}

func (r *jsonReader) ended() bool { return r.depth == 0 && r.peek() == 0 && r.at == len(r.src) }

func (r *jsonReader) scalar(buf []byte) (value, []byte) {
	r.fresh = false
	c := r.peek()
	if c == '"' {
		return value{kind: text}, r.string(buf)
	}
	from := r.at
	for r.at < len(r.src) && !delimiter(r.src[r.at]) {
		r.at++
	}
	if v, ok := digits(r.src[from:r.at]); ok {
		return v, buf
	}
	switch word := string(r.src[from:min(r.at, from+400)]); {
	case r.at-from > 400:
		r.fail("a number of %d characters is too long", r.at-from)
	case word == "true" || word == "false":
		return value{kind: boolean, i: int64(len(word)%2 ^ 1)}, buf
	case word == "null" || word == "" && (c == '[' || c == '{'):
		return value{}, buf
	default:
		return r.number(word), buf
	}
	return value{}, buf
}

// delimiter reports whether c ends a number or a word.
func delimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n', ':', '[', '{', '"':
		return true
	}
	return false
}

// digits parses the common case of an integer with few digits.
func digits(word []byte) (value, bool) {
	minus := len(word) > 0 && word[0] == '-'
	if minus {
		word = word[1:]
	}
	if len(word) == 0 || len(word) > 18 || len(word) > 1 && word[0] == '0' {
		return value{}, false
	}
	v := int64(0)
	for _, c := range word {
		if c < '0' || c > '9' {
			return value{}, false
		}
		v = 10*v + int64(c-'0')
	}
	if minus {
		if v == 0 { // a float keeps its sign
			return value{}, false
		}
		v = -v
	}
	return value{kind: integer, i: v}, true
}

func (r *jsonReader) number(word string) value {
	switch word {
	case "NaN":
		return value{kind: float, f: math.Float64frombits(0x7FF8 << 48)} // NumPy's NaN, without a payload
	case "Infinity":
		return value{kind: float, f: math.Inf(1)}
	case "-Infinity":
		return value{kind: float, f: math.Inf(-1)}
	}
	if !decimal(word) {
		r.fail("invalid value %.20q", word)
		return value{}
	}
	if i, err := strconv.ParseInt(word, 10, 64); err == nil {
		return value{kind: integer, i: i}
	}
	if u, err := strconv.ParseUint(word, 10, 64); err == nil {
		return value{kind: unsigned, u: u}
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		r.fail("invalid number %.20q", word)
	}
	return value{kind: float, f: f}
}

// decimal reports whether word is a valid JSON number, without leading zeros and with
// digits on both sides of a point.
func decimal(word string) bool {
	word = strings.TrimPrefix(word, "-")
	n := countDigits(word)
	if n == 0 || n > 1 && word[0] == '0' {
		return false
	}
	if word = word[n:]; strings.HasPrefix(word, ".") {
		if n = countDigits(word[1:]); n == 0 {
			return false
		}
		word = word[1+n:]
	}
	if word == "" {
		return true
	}
	power := word[1:]
	if power != "" && (power[0] == '+' || power[0] == '-') {
		power = power[1:]
	}
	n = countDigits(power)
	return word[0]|0x20 == 'e' && n > 0 && n == len(power)
}

// countDigits returns the number of digits at the start of word.
func countDigits(word string) int {
	n := 0
	for n < len(word) && word[n] >= '0' && word[n] <= '9' {
		n++
	}
	return n
}

// string appends the content of a string to buf.
func (r *jsonReader) string(buf []byte) []byte {
	for r.at++; r.at < len(r.src); {
		c := r.src[r.at]
		r.at++
		switch c {
		case '"':
			return buf
		case '\\':
			buf = r.escape(buf)
		default:
			if c < ' ' && !r.loose {
				r.fail("a string contains a control character")
			}
			buf = append(buf, c)
		}
	}
	r.fail("unterminated string")
	return buf
}

func (r *jsonReader) escape(buf []byte) []byte {
	if r.at >= len(r.src) {
		return buf
	}
	c := r.src[r.at]
	r.at++
	if k := strings.IndexByte(`"\/bfnrt`, c); k >= 0 {
		return append(buf, "\"\\/\b\f\n\r\t"[k])
	}
	if c != 'u' {
		r.fail("unknown escape")
		return buf
	}
	a := r.hex()
	if utf16.IsSurrogate(a) {
		b := rune(-1)
		if r.at+1 < len(r.src) && r.src[r.at] == '\\' && r.src[r.at+1] == 'u' {
			r.at += 2
			b = r.hex()
		}
		if a = utf16.DecodeRune(a, b); a == utf8.RuneError {
			r.fail("a string contains half of a surrogate pair")
		}
	}
	return utf8.AppendRune(buf, a)
}

func (r *jsonReader) hex() rune {
	if len(r.src)-r.at < 4 {
		r.fail("truncated escape")
		return 0
	}
	v, err := strconv.ParseUint(string(r.src[r.at:r.at+4]), 16, 16)
	if err != nil {
		r.fail("invalid escape")
	}
	r.at += 4
	return rune(v)
}

// jsonWriter writes JSON like Python's module with default parameters.
type jsonWriter struct {
	dst   []byte
	at    int
	style style
	comma bool
	full  bool
}

func (w *jsonWriter) bytes(b []byte) {
	if len(b) > len(w.dst)-w.at {
		w.full = true
		return
	}
	w.at += copy(w.dst[w.at:], b)
}

func (w *jsonWriter) put(s string) {
	if len(s) > len(w.dst)-w.at {
		w.full = true
		return
	}
	w.at += copy(w.dst[w.at:], s)
}

func (w *jsonWriter) next() {
	if w.comma {
		w.put(",")
	}
	w.comma = true
}

func (w *jsonWriter) list(int) {
	w.next()
	w.put("[")
	w.comma = false
}

func (w *jsonWriter) end() {
	w.put("]")
	w.comma = true
}

func (w *jsonWriter) done() (int, bool) { return w.at, !w.full }

func (w *jsonWriter) text(s []byte) {
	w.next()
	w.put(`"`)
	var b [utf8.UTFMax]byte
	for _, c := range string(s) {
		switch {
		case c == '"' || c == '\\':
			w.put(`\` + string(c))
		case c >= ' ' && c < 0x7F || !w.style.ascii && c > 0x7F:
			w.bytes(utf8.AppendRune(b[:0], c))
		case c > 0xFFFF:
			a, b := utf16.EncodeRune(c)
			w.unit(a)
			w.unit(b)
		default:
			w.unit(c)
		}
	}
	w.put(`"`)
}

// unit writes a UTF-16 code unit as an escape.
func (w *jsonWriter) unit(c rune) {
	const digits = "0123456789abcdef"
	w.put(`\u` + string([]byte{digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15]}))
}

func (w *jsonWriter) number(v value) {
	w.next()
	var b [32]byte
	switch {
	case v.kind == boolean:
		w.put(strconv.FormatBool(v.i != 0))
	case v.kind == integer:
		w.bytes(strconv.AppendInt(b[:0], v.i, 10))
	case v.kind == unsigned:
		w.bytes(strconv.AppendUint(b[:0], v.u, 10))
	case math.IsNaN(v.f):
		w.put("NaN")
	case math.IsInf(v.f, 1):
		w.put("Infinity")
	case math.IsInf(v.f, -1):
		w.put("-Infinity")
	default:
		s := strconv.AppendFloat(b[:0], v.f, 'g', -1, 64)
		w.bytes(s)
		if !bytes.ContainsAny(s, ".e") {
			w.put(".0")
		}
	}
}
