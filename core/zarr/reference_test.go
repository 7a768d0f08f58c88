package zarr_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// docs/explanation/correctness.md lists the tests in this file. Each test covers an error
// of libnetcdf 4.10.1 that was observed with the same metadata.

var allLayouts = []zarr.Layout{zarr.LayoutPure, zarr.LayoutNewest, zarr.LayoutLower, zarr.LayoutUpper, zarr.LayoutV1}

// attrRoundTrip writes an attribute in a layout, parses it and returns the result.
func attrRoundTrip(t *testing.T, l zarr.Layout, a zarr.Attr) zarr.Attr {
	t.Helper()
	docs, err := (&zarr.Group{Attrs: []zarr.Attr{a}}).Docs(zarr.WriteOptions{Layout: l, IsRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	g, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
	if err != nil || len(g.Attrs) != 1 || len(g.Warnings) > 0 {
		t.Fatalf("%v: want one attribute from %s, got %+v, %v", l, docs, g, err)
	}
	return g.Attrs[0]
}

// TestReferenceText checks that a char attribute is always parsed as char.
func TestReferenceText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"number": "42", "true": "true", "TRUE": "TRUE", "null": "null", "NaN": "NaN", "infinity": "infinity", "hex": "0x10", "trailing zero": "1.50",
		"exponent": "1e5", "minus zero": "-0", "quoted": `"quoted"`, "leading blank": " lead", "trailing blank": "trail ", "object": `{"a": [1,2]}`,
		"object with blanks": `{ "a" :  [1,2] }`, "array": "[1, 2]", "nearly array": "[1, 2", "empty": "", "escapes": "a\"b\\c\nd\te", "NUL": "a\x00b",
		"not UTF-8": "\xb0C", "accent": "é", "HTML": "<&>\u2028",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, l := range allLayouts {
				if got := attrRoundTrip(t, l, zarr.Attr{Name: "a", Type: dtype.NCChar, Value: text}); got.Type != dtype.NCChar || got.Value != text {
					t.Errorf("%v: want %q, got %v %q", l, text, got.Type, got.Value)
				}
			}
		})
	}
}

// TestReferenceNumbers checks that numbers keep their type, all digits and their count.
// Pure Zarr has no types, so only the values are compared there.
func TestReferenceNumbers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a    zarr.Attr
		pure string // result in pure Zarr, if it differs
	}{
		"pi":                {zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Pi}}, ""},
		"float":             {zarr.Attr{Type: dtype.NCFloat, Value: []float32{0.1}}, "[]float64 [0.1]"},
		"smallest":          {zarr.Attr{Type: dtype.NCDouble, Value: []float64{5e-324, -math.MaxFloat64}}, ""},
		"minus zero":        {zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Copysign(0, -1)}}, ""},
		"whole double":      {zarr.Attr{Type: dtype.NCDouble, Value: []float64{1}}, ""},
		"default fill":      {zarr.Attr{Type: dtype.NCDouble, Value: []float64{9.9692099683868690e+36}}, ""},
		"NaN":               {zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.NaN()}}, ""},
		"infinity":          {zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Inf(-1)}}, ""},
		"NaN among numbers": {zarr.Attr{Type: dtype.NCDouble, Value: []float64{1, math.NaN(), math.Inf(1)}}, ""},
		"only NaN":          {zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.NaN(), math.NaN()}}, ""},
		"float NaN":         {zarr.Attr{Type: dtype.NCFloat, Value: []float32{float32(math.NaN())}}, "[]float64 [NaN]"},
		"int64 max":         {zarr.Attr{Type: dtype.NCInt64, Value: []int64{math.MaxInt64}}, ""},
		"uint64 max":        {zarr.Attr{Type: dtype.NCUInt64, Value: []uint64{math.MaxUint64}}, ""},
		"ushort":            {zarr.Attr{Type: dtype.NCUShort, Value: []uint16{65535}}, "[]int32 [65535]"},
		"byte":              {zarr.Attr{Type: dtype.NCByte, Value: []int8{-128, 127}}, "[]int32 [-128 127]"},
		"empty double":      {zarr.Attr{Type: dtype.NCDouble, Value: []float64{}}, "[]int32 []"},
		"empty string":      {zarr.Attr{Type: dtype.NCString, Value: []string{""}}, ""},
		"no string":         {zarr.Attr{Type: dtype.NCString, Value: []string{}}, "[]int32 []"},
		"one string":        {zarr.Attr{Type: dtype.NCString, Value: []string{"one"}}, ""},
		"strings":           {zarr.Attr{Type: dtype.NCString, Value: []string{"one", "two"}}, ""},
		"string NaN":        {zarr.Attr{Type: dtype.NCString, Value: []string{"NaN"}}, "string NaN"},
		"NaN and text":      {zarr.Attr{Type: dtype.NCString, Value: []string{"NaN", "x"}}, ""},
		"string, number":    {zarr.Attr{Type: dtype.NCString, Value: []string{"5"}}, ""},
		"longer than 128":   {zarr.Attr{Type: dtype.NCString, Value: []string{strings.Repeat("x", 300)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.a.Name = "a"
			for _, l := range allLayouts {
				want := show(c.a.Value)
				if l == zarr.LayoutPure && c.pure != "" {
					want = c.pure
				}
				if got := attrRoundTrip(t, l, c.a); show(got.Value) != want {
					t.Errorf("%v: want %s, got %s", l, want, show(got.Value))
				}
			}
		})
	}
	words := zarr.Group{Attrs: []zarr.Attr{{Name: "a", Type: dtype.NCString, Value: []string{"NaN", "Infinity"}}}}
	if _, err := words.Docs(zarr.WriteOptions{}); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("strings that would be read as numbers: want ErrUnsupported, got %v", err)
	}
}

// TestReferenceAttributes parses attributes from other writers that libnetcdf misreads,
// or with which libnetcdf fails or crashes.
func TestReferenceAttributes(t *testing.T) {
	t.Parallel()
	const char = ">S1"
	for name, c := range map[string]struct {
		json, typ string
		want      any
	}{
		"int, then fraction":          {`[1, 2.5]`, "", []float64{1, 2.5}},
		"int, then too large for int": {`[1, 3000000000]`, "", []uint32{1, 3000000000}},
		"largest int64":               {`9223372036854775807`, "", []int64{math.MaxInt64}},
		"no values":                   {`[]`, "", []int32{}},
		"no values, of type char":     {`[]`, char, "[]"},
		"no values, of type double":   {`[]`, "<f8", []float64{}},
		"empty text":                  {`""`, "", ""},
		"list of strings":             {`["a", "b"]`, "", []string{"a", "b"}},
		"mixed list":                  {`[1, "x"]`, "", `[1, "x"]`},
		"escaped accent":              {`"\u00e9"`, "", "é"},
		"bare NaN":                    {`NaN`, "", []float64{math.NaN()}},
		"NaN in a list":               {`[1.5, "NaN"]`, "", []float64{1.5, math.NaN()}},
		"object":                      {`{"a":  [1]}`, "", `{"a":  [1]}`},
		"number of type char":         {`42`, char, "42"},
		"flag of type char":           {`true`, char, "true"},
		"old char type":               {`"x"`, "<U1", "x"},
		"user's attribute of JSON":    {`{"a": 1}`, "|J0", `{"a": 1}`},
		"does not fit its type":       {`300`, "|u1", []int32{300}},
		"text for a number":           {`"abc"`, "<f4", "abc"},
		"17 digits":                   {`3.1415926535897931`, "<f8", []float64{math.Pi}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types := ""
			if c.typ != "" {
				types = fmt.Sprintf(`, "_nczarr_attr": {"types": {"a": %q}}`, c.typ)
			}
			g, err := zarr.ParseGroup("/", zarr.Docs{".zattrs": []byte(`{"a": ` + c.json + types + `}`)}, zarr.LayoutNewest)
			if err != nil || len(g.Attrs) != 1 || show(g.Attrs[0].Value) != show(c.want) {
				t.Errorf("want %s, got %+v, %v", show(c.want), g, err)
			}
		})
	}
}

// TestReferenceArrays parses documents of arrays that libnetcdf misreads, or that crash
// it.
func TestReferenceArrays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		members string // members set in the .zarray of an array of four ints
		check   func(a *zarr.Array) bool
		refused string
	}{
		"fill of another range":    {`"dtype": "|u1", "fill_value": 300`, nil, "fill_value: 300 is not a value of type |u1"},
		"text as fill of a float":  {`"dtype": "<f4", "fill_value": "abc"`, nil, `fill_value: "abc" is not a value of type <f4`},
		"text as fill of an int":   {`"fill_value": "abc"`, nil, `fill_value: "abc" is not a value of type <i4`},
		"fill 0 of a string":       {`"dtype": "|S3", "fill_value": 0`, func(a *zarr.Array) bool { return string(a.Fill) == "\x00\x00\x00" }, ""},
		"base64 fill":              {`"dtype": "|S3", "fill_value": "YWJj"`, func(a *zarr.Array) bool { return string(a.Fill) == "abc" }, ""},
		"null fill":                {`"fill_value": null`, func(a *zarr.Array) bool { return !a.HasFill }, ""},
		"fill in a list":           {`"fill_value": [7]`, func(a *zarr.Array) bool { return a.Fill[0] == 7 }, ""},
		"fill NaN, bare":           {`"dtype": "<f4", "fill_value": NaN`, func(a *zarr.Array) bool { return string(a.Fill) == "\x00\x00\xc0\x7f" }, ""},
		"big-endian fill":          {`"dtype": ">i2", "fill_value": 7`, func(a *zarr.Array) bool { return string(a.Fill) == "\x00\x07" }, ""},
		"order F":                  {`"shape": [2,3], "chunks": [2,3], "order": "F"`, func(a *zarr.Array) bool { return len(a.Transpose) == 2 && a.Transpose[0] == 1 }, ""},
		"no order":                 {`"order": null`, func(a *zarr.Array) bool { return a.Transpose == nil }, ""},
		"unknown separator":        {`"dimension_separator": "-"`, nil, `dimension_separator: expected "." or "/", found "-"`},
		"type without order":       {`"dtype": "i4"`, func(a *zarr.Array) bool { return a.DType.Order != dtype.Big && a.DType.Size == 4 }, ""},
		"type of native order":     {`"dtype": "=i4"`, func(a *zarr.Array) bool { return a.DType.Order != dtype.Big && a.DType.Size == 4 }, ""},
		"filters of an empty list": {`"filters": []`, func(a *zarr.Array) bool { return len(a.Codecs) == 0 }, ""},
		"parameters as text":       {`"compressor": {"id": "zlib", "level": "3"}`, func(a *zarr.Array) bool { return a.Codecs[0].ID == "zlib" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := zarr.ParseArray("v", zarr.Docs{".zarray": zarray(", " + c.members)}, zarr.ParseHint{})
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), `"/v/.zarray"`) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("want %q, got %v", c.refused, err)
				}
			case err != nil || !c.check(a):
				t.Errorf("unexpected array %+v, %v", a, err)
			}
		})
	}
}

// TestReferenceScalars checks that every form of a scalar is recognized.
func TestReferenceScalars(t *testing.T) {
	t.Parallel()
	shape := func(s string) []byte { return zarray(`, "shape": ` + s + `, "chunks": ` + s) }
	for name, docs := range map[string]zarr.Docs{
		"pure":                {".zarray": shape("[]")},
		"pure of libnetcdf":   {".zarray": shape("[1]"), ".zattrs": []byte(`{"_ARRAY_DIMENSIONS": ["_scalar_"]}`)},
		"newest":              {".zarray": shape("[1]"), ".zattrs": []byte(`{"_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"}}`)},
		"newest without flag": {".zarray": shape("[1]"), ".zattrs": []byte(`{"_nczarr_array": {"dimension_references": [], "storage": "chunked"}}`)},
		"uppercase":           {".zarray": []byte(strings.TrimSuffix(string(shape("[1]")), "}") + `, "_NCZARR_ARRAY": {"dimrefs": [], "storage": "scalar"}}`)},
		"zarr-python in NCZarr": {
			".zarray": shape("[]"), ".zattrs": []byte(`{"_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"}}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := zarr.ParseArray("v", docs, zarr.ParseHint{})
			if err != nil || !a.Scalar || len(a.Warnings) > 0 {
				t.Errorf("want a scalar without warnings, got %+v, %v", a, err)
			}
		})
	}
}
