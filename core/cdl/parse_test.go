package cdl_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func mustParse(t *testing.T, text string) *cdl.File {
	t.Helper()
	f, err := cdl.Parse(strings.NewReader(text), "x.cdl", nil)
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, text)
	}
	return f
}

// corpus returns a folder of the corpora, or skips the test.
func corpus(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("NCZARR_CORPORA")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if filepath.Dir(dir) == dir {
				t.Fatal("go.mod does not exist in any directory above the test")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared", "corpora")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("corpus %s does not exist", name)
	}
	return path
}

// TestConstants checks the type and value of every spelling of a constant.
func TestConstants(t *testing.T) {
	t.Parallel()
	neg := func(n int64) uint64 { return uint64(n) }
	cases := []struct {
		text string
		kind cdl.Kind
		typ  dtype.NC
		bits uint64
	}{
		{"5", cdl.Number, dtype.NCInt, 5},
		{"-5", cdl.Number, dtype.NCInt, neg(-5)},
		{"+7", cdl.Number, dtype.NCInt, 7},
		{"017", cdl.Number, dtype.NCInt, 15},
		{"0", cdl.Number, dtype.NCInt, 0},
		{"-2147483648", cdl.Number, dtype.NCInt, neg(-2147483648)},
		{"2147483648", cdl.Number, dtype.NCUInt, 2147483648},
		{"-2147483649", cdl.Number, dtype.NCInt64, neg(-2147483649)},
		{"5000000000", cdl.Number, dtype.NCUInt64, 5000000000},
		{"18446744073709551615", cdl.Number, dtype.NCUInt64, math.MaxUint64},
		{"-9223372036854775808", cdl.Number, dtype.NCInt64, 1 << 63},
		{"12b", cdl.Number, dtype.NCByte, 12},
		{"-128B", cdl.Number, dtype.NCByte, neg(-128)},
		{"255b", cdl.Number, dtype.NCByte, neg(-1)},
		{"3s", cdl.Number, dtype.NCShort, 3},
		{"65535S", cdl.Number, dtype.NCShort, neg(-1)},
		{"4L", cdl.Number, dtype.NCInt, 4},
		{"-200000000000L", cdl.Number, dtype.NCInt64, neg(-200000000000)},
		{"6LL", cdl.Number, dtype.NCInt64, 6},
		{"7ub", cdl.Number, dtype.NCUByte, 7},
		{"8US", cdl.Number, dtype.NCUShort, 8},
		{"9u", cdl.Number, dtype.NCUInt, 9},
		{"9UL", cdl.Number, dtype.NCUInt, 9},
		{"9lu", cdl.Number, dtype.NCUInt, 9},
		{"10ULL", cdl.Number, dtype.NCUInt64, 10},
		{"18446744073709551615ull", cdl.Number, dtype.NCUInt64, math.MaxUint64},
		{"0xaf", cdl.Hex, dtype.NCNone, 0xaf},
		{"0XFFFFFFFFFFFFFFFF", cdl.Hex, dtype.NCNone, math.MaxUint64},
		{"0xabcdS", cdl.Number, dtype.NCShort, neg(-21555)},
		{"0xabcdUS", cdl.Number, dtype.NCUShort, 0xabcd},
		{"0xabcdabcdabcdabcdL", cdl.Hex, dtype.NCNone, 0xabcdabcdabcdabcd},
		{"1.5", cdl.Number, dtype.NCDouble, math.Float64bits(1.5)},
		{".5", cdl.Number, dtype.NCDouble, math.Float64bits(.5)},
		{"-1.e+308", cdl.Number, dtype.NCDouble, math.Float64bits(-1e308)},
		{"1e3", cdl.Number, dtype.NCDouble, math.Float64bits(1000)},
		{"2.5d", cdl.Number, dtype.NCDouble, math.Float64bits(2.5)},
		{"2.5L", cdl.Number, dtype.NCDouble, math.Float64bits(2.5)},
		{"516.0f", cdl.Number, dtype.NCFloat, math.Float64bits(516)},
		{"0.1f", cdl.Number, dtype.NCFloat, math.Float64bits(float64(float32(0.1)))},
		{"1.e-36F", cdl.Number, dtype.NCFloat, math.Float64bits(float64(float32(1e-36)))},
		{"NaN", cdl.Number, dtype.NCDouble, 0x7FF8000000000000},
		{"nanf", cdl.Number, dtype.NCFloat, 0x7FF8000000000000},
		{"Infinity", cdl.Number, dtype.NCDouble, math.Float64bits(math.Inf(1))},
		{"-Infinityf", cdl.Number, dtype.NCFloat, math.Float64bits(math.Inf(-1))},
		{"-inf", cdl.Number, dtype.NCDouble, math.Float64bits(math.Inf(-1))},
		{`'a'`, cdl.Char, dtype.NCNone, 'a'},
		{`'\0'`, cdl.Char, dtype.NCNone, 0},
		{`'\376'`, cdl.Char, dtype.NCNone, 254},
		{`'\x41'`, cdl.Char, dtype.NCNone, 'A'},
		{`'\n'`, cdl.Char, dtype.NCNone, '\n'},
		{`'\''`, cdl.Char, dtype.NCNone, '\''},
		{"_", cdl.Fill, dtype.NCNone, 0},
		{"NIL", cdl.Nil, dtype.NCNone, 0},
	}
	for _, c := range cases {
		f := mustParse(t, "netcdf x {\n:a = "+c.text+" ;\n}")
		v := f.Root.Attrs[0].Values[0]
		if v.Kind != c.kind || v.Type != c.typ || v.Bits != c.bits {
			t.Errorf("%s = kind %d, %s, %#x; want kind %d, %s, %#x", c.text, v.Kind, v.Type, v.Bits, c.kind, c.typ, c.bits)
		}
	}
}

// TestMark checks that Parse accepts a byte order mark and CRLF line endings.
func TestMark(t *testing.T) {
	t.Parallel()
	f := mustParse(t, "\ufeffnetcdf x {\r\n:a = 1 ; // note\r\n}\r\n")
	if f.Dataset != "x" || len(f.Root.Attrs) != 1 || f.Root.Attrs[0].Pos != (cdl.Pos{Line: 2, Col: 2}) {
		t.Errorf("want an attribute at 2:2, got %+v", f.Root.Attrs[0])
	}
}

func TestStrings(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		`"abc"`:               "abc",
		`""`:                  "",
		`"a\tb\\\"\'"`:        "a\tb\\\"'",
		`"\b\f\r\v\a\?"`:      "\b\f\r\v\a\x7f",
		`"x\000y"`:            "x\x00y",
		`"\316\232"`:          "Κ",
		`"\x41\x4a"`:          "AJ",
		"\"two\nlines\"":      "two\nlines",
		`"Καλημέρα"`:          "Καλημέρα",
		`"// no /* comment"`:  "// no /* comment",
		`"{\'k\': \"v\"} \;"`: `{'k': "v"} ;`,
	}
	for text, want := range cases {
		f := mustParse(t, "netcdf x { :a = "+text+"; }")
		if got := f.Root.Attrs[0].Values[0].Text; got != want {
			t.Errorf("%s = %q, want %q", text, got, want)
		}
	}
}

// TestGrammar checks the tree of a file that uses the whole grammar.
func TestGrammar(t *testing.T) {
	t.Parallel()
	f := mustParse(t, `netcdf my\ data-1.0 { // a comment
	:first = "of all" ; /* before
	any section */
types:
dimensions:
	lat = 10, lon = 5 ; time = unlimited ;
	u = UNLIMITED ; // (3 currently)
	:inDims = 1 ;
variables:
	long lat(lat), lon(lon) ; real r(time, lat) ;
	char data(u) ;
	data :units = "m" ;
	lat:units = "degrees", "north" ;
	float r:range = 0., 5 ;
	string :title = "a", NIL ;
	int :n = 3 ;
	double a\ b\(c\)(/lon) ;
	a\ b\(c\):x = ;
	byte \9x ;
	integer i ; ulong ul ; uinteger ui ;
data:
	data = "x", 'y' ;
	r = 1, {2, _}, NaNf ;
	lat = ;
group: g {
	dimensions: lat = 2 ;
	variables: uint64 v(lat, /lat, lon) ; v:a = 1ub ;
	group: h { :deep = 1s ; }
	/g/v:b = 2 ;
}
group: e { }
}
`)
	if f.Dataset != "my data-1.0" {
		t.Errorf("want dataset name my data-1.0, got %q", f.Dataset)
	}
	root := f.Root
	names := func(vars []*cdl.Var) (s []string) {
		for _, v := range vars {
			s = append(s, v.Type.String()+" "+v.Name)
		}
		return s
	}
	want := []string{"int lat", "int lon", "float r", "char data", "double a b(c)", "byte 9x", "int i", "uint ul", "uint ui"}
	if got := names(root.Vars); !reflect.DeepEqual(got, want) {
		t.Errorf("variables %q, want %q", got, want)
	}
	if len(root.Dims) != 4 || !root.Dims[2].Unlimited || !root.Dims[3].Unlimited || root.Dims[1].Len != 5 {
		t.Errorf("unexpected dimensions %+v", root.Dims)
	}
	var attrs []string
	for _, a := range root.Attrs {
		attrs = append(attrs, a.Type.String()+" "+a.Name)
	}
	if want := []string{"none first", "none inDims", "string title", "int n"}; !reflect.DeepEqual(attrs, want) {
		t.Errorf("attributes %q, want %q", attrs, want)
	}
	all, err := treeOf(f)
	if err != nil {
		t.Fatal(err)
	}
	r := root.Vars[2]
	if vals := all.data[r]; len(vals) != 3 || vals[1].Kind != cdl.List || len(*vals[1].Sub) != 2 || r.Attrs[0].Type != dtype.NCFloat {
		t.Errorf("unexpected variable r %+v with values %+v", r, vals)
	}
	if d := root.Vars[3]; !d.HasData || len(d.Attrs) != 1 || d.Attrs[0].Name != "units" {
		t.Errorf("unexpected variable data %+v", d)
	}
	if lat := root.Vars[0]; !lat.HasData || len(all.data[lat]) != 0 {
		t.Errorf("want empty data of lat, got %+v", lat)
	}
	g := root.Groups[0]
	v := g.Vars[0]
	if v.Dims[0].Dim != g.Dims[0] || v.Dims[1].Dim != root.Dims[0] || v.Dims[2].Dim != root.Dims[1] {
		t.Errorf("unexpected dimensions of /g/v: %+v", v.Dims)
	}
	if len(v.Attrs) != 2 || len(g.Groups) != 1 || g.Groups[0].Attrs[0].Name != "deep" {
		t.Errorf("unexpected group g %+v", g)
	}
	if pos := v.Pos; pos != (cdl.Pos{Line: 27, Col: 20}) {
		t.Errorf("want position 27:20 of /g/v, got %v", pos)
	}
}

// TestErrors checks message, position and kind of each error.
func TestErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text, want string
		kind       ncerr.Kind
	}{
		{"", `"x.cdl:1:1": invalid argument: expected "netcdf", found end of file`, ncerr.ErrInvalid},
		{"<html>", `1:1": invalid argument: expected "netcdf", found "<"`, ncerr.ErrInvalid},
		{"netcdf x", `1:9": invalid argument: expected "{" after the dataset's name`, ncerr.ErrInvalid},
		{"netcdf x {", `1:11": invalid argument: expected section or attribute, found end of file`, ncerr.ErrInvalid},
		{"netcdf x {\ndimensions:\n\tx = 5\n\ty = 6 ;\n}", `4:2": invalid argument: expected ";", found "y"`, ncerr.ErrInvalid},
		{"netcdf x { dimensions: x = 1 ;\x00 }", `1:31": invalid argument: expected dimension, attribute or section, found "\x00"`, ncerr.ErrInvalid},
		{"netcdf x {\ndimensions: x = -5 ; }", `2:17": invalid argument: length -5 of dimension "x" is out of range`, ncerr.ErrInvalid},
		{"netcdf x { dimensions: x = 1.5 ; }", `expected length or UNLIMITED, found "1.5"`, ncerr.ErrInvalid},
		{"netcdf x { dimensions: x = 1 ; x = 2 ; }", `dimension "x" is already declared`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v(nodim) ; }", `1:29": invalid argument: dimension "nodim" does not exist`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; float v ; }", `variable "v" is already declared`, ncerr.ErrInvalid},
		{"netcdf x { variables: foo v ; }", `1:23": invalid argument: "foo" is not a type`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; w:a = 1 ; }", `variable "w" does not exist`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; v:a = 1 ; v:a = 2 ; }", `attribute "a" is already declared`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; data: v = 1 ; v = 2 ; }", `variable "v" already has data`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; data: v = 1 2 ; }", `1:43": invalid argument: expected ";", found "2"`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; data: v = Cirrus ; }", `expected value, found "Cirrus"`, ncerr.ErrInvalid},
		{"netcdf x { variables: int v ; data: v = 1, \"two\" \"three\" ; }", `expected ";", found "three"`, ncerr.ErrInvalid},
		{"netcdf x { data: dimensions: }", `"dimensions:" cannot come after "data:"`, ncerr.ErrInvalid},
		{"netcdf x { group: g { } group: g { } }", `group "g" is already declared`, ncerr.ErrInvalid},
		{"netcdf x { } trailing", `1:14": invalid argument: expected end of file, found "trailing"`, ncerr.ErrInvalid},
		{"netcdf x { :a = \"open ;\n}", `1:17": invalid argument: unterminated string`, ncerr.ErrInvalid},
		{"netcdf x { /* open }", `unterminated comment`, ncerr.ErrInvalid},
		{"netcdf x { :a = 'ab' ; }", `a character constant must contain one single-byte character`, ncerr.ErrInvalid},
		{"netcdf x { :a = \"\\xZZ\" ; }", `\\x needs two hexadecimal digits`, ncerr.ErrInvalid},
		{"netcdf x { :a = '\\777' ; }", `octal escape \\777 exceeds one byte`, ncerr.ErrInvalid},
		{"netcdf x { :a = 300b ; }", `constant 300b: out of range for byte`, ncerr.ErrInvalid},
		{"netcdf x { :a = -1ub ; }", `an unsigned constant cannot have a sign`, ncerr.ErrInvalid},
		{"netcdf x { :a = 08 ; }", `8 and 9 are not octal digits`, ncerr.ErrInvalid},
		{"netcdf x { :a = 1e999 ; }", `too large for a double`, ncerr.ErrInvalid},
		{"netcdf x { :a = 1e39f ; }", `too large for a float`, ncerr.ErrInvalid},
		{"netcdf x { :a = 99999999999999999999 ; }", `exceeds 64 bits`, ncerr.ErrInvalid},
		{"netcdf x { :a = 12abc ; }", `constant 12abc: `, ncerr.ErrInvalid},
		{"netcdf x { :a = -foo ; }", `"-foo" is not a number`, ncerr.ErrInvalid},
		{"netcdf x { types: byte enum e1 {a = 0} ; }", `1:29": not supported: type "e1" is user-defined, which NCZarr does not support`, ncerr.ErrUnsupported},
		{"netcdf x { types: compound c { int i ; } ; }", `type "c" is user-defined`, ncerr.ErrUnsupported},
		{"netcdf x { types: opaque(5) o ; }", `type "o" is user-defined`, ncerr.ErrUnsupported},
		{"netcdf x { types: int(*) v ; }", `type "v" is user-defined`, ncerr.ErrUnsupported},
		{"netcdf x { variables: int v ; data: v = " + strings.Repeat("{", 100), `lists are nested deeper than the limit of 64 levels`, ncerr.ErrLimit},
		{"netcdf x { " + strings.Repeat("group: g {", 300), `groups are nested deeper than the limit of 256 levels`, ncerr.ErrLimit},
		{"netcdf x { dimensions: a\\/b = 1 ; }", `a backslash in a name`, ncerr.ErrInvalid},
	}
	for _, c := range cases {
		_, err := cdl.Parse(strings.NewReader(c.text), "x.cdl", nil)
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.want, `\\`, `\`)) {
			t.Errorf("%.60q\n got %v\nwant %s", c.text, err, c.want)
			continue
		}
		if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), `"x.cdl:`) {
			t.Errorf("%.60q: want kind %v, got %v: %v", c.text, c.kind, ncerr.KindOf(err), err)
		}
	}
}

// TestReaderError checks that a read error is not mistaken for the end of the input.
func TestReaderError(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	text := `netcdf x { variables: char v ; data: v = "abc" ; }`
	for n := range len(text) {
		r := iotest.DataErrReader(&failAfter{text[:n], broken})
		if _, err := cdl.Parse(r, "x.cdl", nil); !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: want the error of the reader, got %v", n, err)
		}
	}
}

type failAfter struct {
	rest string
	err  error
}

func (f *failAfter) Read(p []byte) (int, error) {
	if f.rest == "" {
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// TestParseCorpora parses every CDL file of the corpora. Files with user-defined types
// must fail with an error that contains the name of the type.
func TestParseCorpora(t *testing.T) {
	t.Parallel()
	userTypes := map[string]string{
		"ref_solar": "observation", "ref_tst_comp": "obs_t", "ref_tst_comp2": "vecmat_t", "ref_tst_comp3": "c_t",
		"ref_tst_econst": "e1", "ref_tst_econst2": "enum_t", "ref_tst_enum_data": "cloud_class_t",
		"ref_tst_opaque_data": "raw_obs_t", "ref_tst_solar_2": "unimaginatively_named_vlen_type",
		"ref_tst_special_atts": "obs_t", "ref_tst_vlen_data": "row_of_floats", "ref_tst_vlen_data2": "daysofWeekType",
		"ref_typescope": "op_t1",
	}
	root := corpus(t, "cdl")
	files, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil || len(files) < 80 {
		t.Fatalf("want at least 80 files, got %d, %v", len(files), err)
	}
	for _, path := range files {
		r, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(path)
		_, err = cdl.Parse(r, base, nil)
		r.Close()
		name := strings.TrimSuffix(base, filepath.Ext(base))
		if typ := userTypes[name]; typ != "" {
			if ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), `"`+typ+`" is user-defined`) {
				t.Errorf("%s: %v, want an error for type %s", base, err, typ)
			}
		} else if err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestInferType(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"1":                         "int",
		"1b, 300s":                  "short",
		"300s, 1b":                  "short",
		"1, 2.5":                    "double",
		"1, 2.5f":                   "float",
		"1.5f, 2.5":                 "double",
		"'a'":                       "byte",
		"'a', 'b'":                  "byte",
		`"a"`:                       "char",
		`"a", "b"`:                  "char",
		`"a", 'b'`:                  "char",
		"":                          "char",
		"4000000000":                "uint",
		"5000000000":                "uint64",
		"-5000000000":               "int64",
		"1LL, 2b":                   "int64",
		"18446744073709551615":      "uint64",
		"1ub, 2b":                   "byte",
		"2b, 1ub":                   "ubyte",
		"0xff":                      "int",
		"18446744073709551615, 1LL": "uint64",
	}
	for text, want := range cases {
		f := mustParse(t, "netcdf x { :a = "+text+" ; }")
		if got, err := cdl.Infer(f.Root.Attrs[0]); err != nil || got != want {
			t.Errorf("attribute %s is %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`"a", 5`, "_", "NIL", "{1}"} {
		f := mustParse(t, "netcdf x { :a = "+text+" ; }")
		if got, err := cdl.Infer(f.Root.Attrs[0]); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("attribute %s is %s (%v), want an error", text, got, err)
		}
	}
}

// TestParseRoundTrip checks that random trees written as CDL are read back unchanged.
func TestParseRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := drawTree(t)
		text := want.text()
		got, err := cdl.Parse(strings.NewReader(text), want.Name, nil)
		if err != nil {
			t.Fatalf("parse: %v\n%s", err, text)
		}
		back, err := treeOf(got)
		if err != nil {
			t.Fatal(err)
		}
		if again := back.text(); again != text {
			t.Fatalf("read back differently:\n%s\nagain:\n%s", text, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"netcdf x { dimensions: t = UNLIMITED ; variables: float v(t) ; v:a = 1.f, NaNf ; data: v = 1, _, -Infinity ; }",
		"netcdf x { group: g { variables: char c ; data: c = 'a' ; } :g = \"\\000\\x41\" ; }",
		"netcdf x { types: byte enum e {a = 1} ; variables: e v ; }",
		"netcdf x{/**/:a=0x1,0777,1ULL;//\n}",
		"netcdf \\ { variables: string s(/x) ; data: s = {{NIL}} ; }",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := cdl.Parse(strings.NewReader(text), "fuzz.cdl", nil)
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrInvalid && k != ncerr.ErrUnsupported && k != ncerr.ErrLimit {
				t.Fatalf("unexpected error of kind %v: %v", k, err)
			}
			return
		}
		// Accepted input can be written, and is read back unchanged.
		first, err := treeOf(file)
		if err != nil {
			t.Fatal(err)
		}
		file, err = cdl.Parse(strings.NewReader(first.text()), "fuzz.cdl", nil)
		if err != nil {
			t.Fatalf("parse: %v\n%s", err, first.text())
		}
		again, err := treeOf(file)
		if err != nil {
			t.Fatal(err)
		}
		if first.text() != again.text() {
			t.Fatalf("read back differently: %q\n%s\n%s", text, first.text(), again.text())
		}
	})
}
