package object_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
	"github.com/seed-695719ce/nczarr/filters/object"
)

func words(t testing.TB, list ...string) []byte {
	t.Helper()
	b := make([]byte, 1<<12)
	w, err := driver.NewValuesWriter(b, len(list))
	for i := 0; i < len(list) && err == nil; i++ {
		err = w.AddString(list[i])
	}
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Done()
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// floats holds the float64 values 1.5 and -0.25, little-endian.
const floats = "\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\xd0\xbf"

// TestNumcodecs tests lists made by numcodecs. The filters must decode them, and encode
// the same lists except for white space.
func TestNumcodecs(t *testing.T) {
	t.Parallel()
	pack := func(s string) string {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		id, params, dtype string
		shape             []int
		plain             []byte
		list              string
	}{
		"strings":         {object.JSON, `{}`, "|O", []int{3}, words(t, "a", "größe", ""), `["a","gr\u00f6\u00dfe","","|O",[3]]`},
		"strings, indent": {object.JSON, `{"ensure_ascii":false,"indent":1}`, "|O", []int{3}, words(t, "a", "größe", ""), "[\n \"a\", \n \"größe\", \n \"\", \n \"|O\", \n [\n  3\n ]\n]"},
		"integers":        {object.JSON, `{}`, "<i2", []int{2, 2}, []byte("\x01\x00\xfe\xff\x03\x00\x04\x00"), `[[1,-2],[3,4],"<i2",[2,2]]`},
		"floats":          {object.JSON, `{}`, "<f8", []int{2}, []byte(floats), `[1.5,-0.25,"<f8",[2]]`},
		"not finite":      {object.JSON, `{}`, "<f4", []int{3}, []byte("\x00\x00\xc0\x7f\x00\x00\x80\xff\x00\x00\x80\x7f"), `[NaN,-Infinity,Infinity,"<f4",[3]]`},
		"no number":       {object.JSON, `{}`, "<f8", []int{1}, []byte("\x00\x00\x00\x00\x00\x00\xf8\x7f"), `[NaN,"<f8",[1]]`},
		"bools":           {object.JSON, `{}`, "|b1", []int{2}, []byte{1, 0}, `[true,false,"|b1",[2]]`},
		"fixed strings":   {object.JSON, `{}`, "<U2", []int{2}, []byte("a\x00\x00\x00b\x00\x00\x00\x01\x00\x00\x00\"\x00\x00\x00"), `["ab","\u0001\"","<U2",[2]]`},
		"packed strings":  {object.MsgPack, `{}`, "|O", []int{4}, words(t, "a", "größe", "", strings.Repeat("x", 40)), pack("96a161a76772c3b6c39f65a0d928" + strings.Repeat("78", 40) + "a27c4f9104")},
		"packed numbers":  {object.MsgPack, `{}`, "<i4", []int{2, 2}, []byte("\x01\x00\x00\x00\xfe\xff\xff\xff\x2c\x01\x00\x00\xc0\x63\xff\xff"), pack("949201fe92cd012cd2ffff63c0a33c6934920202")},
		"packed floats":   {object.MsgPack, `{}`, "<f8", []int{2}, []byte(floats), pack("94cb3ff8000000000000cbbfd0000000000000a33c66389102")},
	} {
		typ, err := dtype.Parse(c.dtype)
		if err != nil {
			t.Fatal(err)
		}
		f, out := filtertest.Open(t, object.Provider(), c.id, c.params, driver.Spec{DType: typ, Shape: c.shape, MaxBytes: 1 << 12})
		dst, enc := make([]byte, 1<<12), make([]byte, out.MaxBytes)
		if n, err := f.Decode(t.Context(), dst, []byte(c.list)); err != nil || !bytes.Equal(c.plain, dst[:n]) {
			t.Errorf("%s: want %x, got %x, %v", name, c.plain, dst[:n], err)
		}
		want := strings.NewReplacer(" \n", "", "\n", "", " ", "").Replace(c.list)
		if c.id == object.MsgPack {
			want = c.list
		}
		if n, err := f.Encode(t.Context(), enc, c.plain); err != nil || string(enc[:n]) != want {
			t.Errorf("%s: want %q, got %q, %v", name, want, enc[:n], err)
		}
		for n := range len(c.list) {
			if _, err := f.Decode(t.Context(), dst, []byte(c.list[:n])); ncerr.KindOf(err) != ncerr.ErrCorrupt {
				t.Errorf("%s cut to %q: want ErrCorrupt, got %v", name, c.list[:n], err)
			}
		}
	}
}

// TestIndent checks that the promised size holds a list with white space as Python
// writes it, because a compressor that follows may have encoded such a list.
func TestIndent(t *testing.T) {
	t.Parallel()
	for params, indent := range map[string]string{`{"indent":24}`: strings.Repeat(" ", 24), `{"indent":" \t"}`: " \t", `{"indent":0,"separators":[",     ",":"]}`: ""} {
		list := []any{}
		for range 5 {
			list = append(list, [][][]int{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}, {{9, -128}, {-127, 0}}})
		}
		text, err := json.MarshalIndent(append(list, "|i1", []int{5, 3, 2, 2}), "", indent)
		if err != nil {
			t.Fatal(err)
		}
		apart := ", \n"
		if strings.Contains(params, "separators") {
			apart = ",     \n"
		}
		text = bytes.ReplaceAll(text, []byte(",\n"), []byte(apart))
		in := driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 1}, Shape: []int{5, 3, 2, 2}, MaxBytes: 60}
		c, out := filtertest.Open(t, object.Provider(), object.JSON, params, in)
		if int64(len(text)) > out.MaxBytes {
			t.Errorf("%s: a list of %d bytes, but MaxBytes is %d", params, len(text), out.MaxBytes)
		}
		dst := make([]byte, 60)
		if n, err := c.Decode(t.Context(), dst, text); err != nil || n != 60 {
			t.Errorf("%s: want 60 decoded bytes, got %d, %v", params, n, err)
		}
	}
	if _, _, err := object.Provider().Open(object.JSON, json.RawMessage(`{"indent":100000}`), driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 1}, Shape: []int{1}, MaxBytes: 1}); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("want ErrInvalid, got %v", err)
	}
}

// TestIndentRoom checks that the promised size is limited if the parameters request
// large amounts of white space.
func TestIndentRoom(t *testing.T) {
	t.Parallel()
	room := func(params string) int64 {
		in := driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 1}, Shape: []int{1 << 12, 1 << 12}, MaxBytes: 1 << 24}
		_, out := filtertest.Open(t, object.Provider(), object.JSON, params, in)
		return out.MaxBytes
	}
	plain := room(`{}`)
	for _, params := range []string{`{"indent":1024}`, `{"separators":["` + strings.Repeat(" ", 1024) + `",":"]}`} {
		if got := room(params); got != driver.MaxOutput(1<<24) {
			t.Errorf("%.20s: MaxBytes is %d, not the largest that a pipeline accepts", params, got)
		}
	}
	for kind, size := range map[dtype.Kind]int{dtype.Bool: 1, dtype.Int: 1, dtype.Uint: 2} {
		in := driver.Spec{DType: dtype.Type{Kind: kind, Size: size}, Shape: []int{5003, 1, 1, 1}, MaxBytes: 5003 * int64(size)}
		if _, out := filtertest.Open(t, object.Provider(), object.JSON, `{"indent":2}`, in); out.MaxBytes > driver.MaxOutput(in.MaxBytes) {
			t.Errorf("%v in long lists: a pipeline refuses a MaxBytes of %d", in.DType, out.MaxBytes)
		}
	}
	if got := room(`{"indent":8}`); got < plain+25<<24 {
		t.Errorf("an indent of 8: MaxBytes is %d, and %d without it", got, plain)
	}
}

// TestRefused checks that lists that are malformed or do not match the array are
// rejected.
func TestRefused(t *testing.T) {
	t.Parallel()
	text, number := dtype.Type{Kind: dtype.String}, dtype.Type{Kind: dtype.Int, Size: 1}
	for name, c := range map[string]struct {
		id, src string
		typ     dtype.Type
	}{
		"null":              {object.JSON, `["a",null,"|O",[2]]`, text},
		"number in strings": {object.JSON, `["a",3,"|O",[2]]`, text},
		"object":            {object.JSON, `["a",{},"|O",[2]]`, text},
		"string in numbers": {object.JSON, `[1,"a","|i1",[2]]`, number},
		"too large":         {object.JSON, `[1,300,"|i1",[2]]`, number},
		"fraction":          {object.JSON, `[1,0.5,"|i1",[2]]`, number},
		"too few":           {object.JSON, `["a","|O",[1]]`, text},
		"too many":          {object.JSON, `["a","b","c","|O",[3]]`, text},
		"other shape":       {object.JSON, `["a","b","|O",[3]]`, text},
		"other type":        {object.JSON, `[1,2,"<f8",[2]]`, number},
		"no type":           {object.JSON, `["a","b"]`, text},
		"trailing data":     {object.JSON, `["a","b","|O",[2]]x`, text},
		"leading zero":      {object.JSON, `[1,028,"|i1",[2]]`, number},
		"two zeros":         {object.JSON, `[1,00.5e1,"|i1",[2]]`, number},
		"minus zero one":    {object.JSON, `[1,-01,"|i1",[2]]`, number},
		"no whole part":     {object.JSON, `[1,-.0,"|i1",[2]]`, number},
		"no fraction":       {object.JSON, `[1,5.,"|i1",[2]]`, number},
		"no power":          {object.JSON, `[1,5e+,"|i1",[2]]`, number},
		"plus":              {object.JSON, `[1,+5,"|i1",[2]]`, number},
		"small infinity":    {object.JSON, `[1,-infinity,"<f8",[2]]`, dtype.Type{Kind: dtype.Float, Size: 8, Order: dtype.Little}},
		"other infinity":    {object.JSON, `[1,-Inf,"<f8",[2]]`, dtype.Type{Kind: dtype.Float, Size: 8, Order: dtype.Little}},
		"control":           {object.JSON, "[\"a\",\"b\x00\",\"|O\",[2]]", text},
		"half surrogate":    {object.JSON, `["a","\ud800","|O",[2]]`, text},
		"not UTF-8":         {object.JSON, "[\"a\",\"\xff\",\"|O\",[2]]", text},
		"comma at the end":  {object.JSON, `["a","b","|O",[2],]`, text},
		"packed nil":        {object.MsgPack, "\x94\xa1a\xc0\xa2|O\x91\x02", text},
		"packed map":        {object.MsgPack, "\x94\xa1a\x80\xa2|O\x91\x02", text},
		"huge list":         {object.MsgPack, "\xdd\xff\xff\xff\xff", text},
		"huge string":       {object.MsgPack, "\x94\xdb\xff\xff\xff\xff", text},
	} {
		f, _ := filtertest.Open(t, object.Provider(), c.id, `{}`, driver.Spec{DType: c.typ, Shape: []int{2}, MaxBytes: 1 << 10})
		if n, err := f.Decode(t.Context(), make([]byte, 1<<10), []byte(c.src)); ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("%s: want ErrCorrupt, got %d bytes, %v", name, n, err)
		}
	}
}

// TestNotStrict checks that a list with an unescaped control character is decoded if
// strict is false, as in Python's module.
func TestNotStrict(t *testing.T) {
	t.Parallel()
	f, _ := filtertest.Open(t, object.Provider(), object.JSON, `{"strict":false}`, driver.Spec{DType: dtype.Type{Kind: dtype.String}, Shape: []int{1}, MaxBytes: 100})
	dst, want := make([]byte, 100), words(t, "a\tb")
	if n, err := f.Decode(t.Context(), dst, []byte("[\"a\tb\",\"|O\",[1]]")); err != nil || !bytes.Equal(want, dst[:n]) {
		t.Errorf("want %x, got %x, %v", want, dst[:n], err)
	}
}
