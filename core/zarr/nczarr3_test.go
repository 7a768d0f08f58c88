package zarr_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

var (
	hint3  = zarr.ParseHint{Layout: zarr.LayoutNCZarr3}
	write3 = zarr.WriteOptions{Layout: zarr.LayoutNCZarr3}
)

// group3 returns the zarr.json of a group with attributes.
func group3(attrs string) zarr.Docs {
	return zarr.Docs{"zarr.json": []byte(`{"zarr_format": 3, "node_type": "group", "attributes": {` + attrs + `}}`)}
}

// Example documents for the draft of NCZarr 3, which no release writes. They follow
// netcdf-c 2ed1b28, docs/nczarr.md, appendix E, and use the spellings of attribute
// types that the draft allows.
const (
	draftRoot = `"title": "T", "n": [1, 2], "tree": {"a": [1]}, "many": ["a", "b"], "half": 1,
		"_nczarr_superblock": {"version": "3.0.0", "format": 3},
		"_nczarr_group": {"dimensions": [{"name": "t", "size": 2, "unlimited": 1}, {"name": "x", "size": 3, "unlimited": 0}], "arrays": ["c", "s"], "subgroups": ["g"]},
		"_nczarr_attrs": {"attribute_types": [{"name": "title", "configuration": {"type": "char"}}, {"name": "n", "configuration": {"type": "<i2"}},
			{"name": "tree", "configuration": {"type": "json"}}, {"name": "many", "configuration": {"type": "string"}}, {"name": "half", "configuration": {"type": "float32"}},
			{"name": "_nczarr_group", "configuration": {"type": "json"}}]}`
	draftChar   = `"shape": [4, 6], "data_type": "uint8", "fill_value": 32, "codecs": ["bytes"], "attributes": {"_nczarr_array": {"dimension_references": ["/t", "/g/x"], "type_alias": "char"}}`
	draftString = `"shape": [4, 6], "data_type": "r24", "fill_value": [97, 0, 0], "codecs": ["bytes"], "attributes": {"_FillValue": "abcd", "_nczarr_array": {"dimension_references": ["/t", "/g/x"], "type_alias": "string"},
		"_nczarr_attrs": {"attribute_types": [{"name": "_FillValue", "configuration": {"type": "string"}}]}}`
)

func TestDraftGroup(t *testing.T) {
	t.Parallel()
	docs := group3(draftRoot)
	if got, err := zarr.DetectLayout(docs, false); got != zarr.LayoutNCZarr3 || err != nil {
		t.Errorf("want NCZarr 3, got %v, %v", got, err)
	}
	g, err := zarr.ParseGroup("/", docs, zarr.LayoutNCZarr3)
	if err != nil || len(g.Warnings)+len(g.Invalid) > 0 {
		t.Fatalf("want no warnings, got %+v, %v", g, err)
	}
	want := []zarr.Dim{{Name: "t", Len: 2, Unlimited: true}, {Name: "x", Len: 3}}
	if !g.Listed || g.Superblock != "3.0.0" || g.Layout != zarr.LayoutNCZarr3 || !slices.Equal(g.Dims, want) || !slices.Equal(g.Arrays, []string{"c", "s"}) || !slices.Equal(g.Groups, []string{"g"}) {
		t.Errorf("want the lists of the draft, got %+v", g)
	}
	text := ""
	for _, a := range g.Attrs {
		text += fmt.Sprintf("%s %s %q; ", a.Name, a.Type, fmt.Sprint(a.Value))
	}
	if want := `title char "T"; n short "[1 2]"; tree char "{\"a\": [1]}"; many string "[a b]"; half float "[1]"; `; text != want {
		t.Errorf("want %s, got %s", want, text)
	}
	pure, err := zarr.ParseGroup("/", docs, zarr.LayoutV3)
	if err != nil || pure.Listed || pure.Dims != nil || len(pure.Attrs) != 5 || pure.Attrs[1].Type != dtype.NCInt {
		t.Errorf("as pure Zarr: want 5 attributes and no lists, got %+v, %v", pure, err)
	}
	if got, err := zarr.DetectLayout(docs, true); got != zarr.LayoutV3 || err != nil {
		t.Errorf("as pure Zarr: want Zarr v3, got %v, %v", got, err)
	}
}

func TestDraftArrays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ members, want string }{
		"char":                      {draftChar, `char ">S1"[32] ["/t" "/g/x"] []`},
		"fixed string":              {draftString, `string "|S3"[97 0 0] ["/t" "/g/x"] [_FillValue string [abcd]]`},
		"raw_bytes":                 {`"data_type": {"name": "raw_bytes", "configuration": {"length_bytes": 2}}, "fill_value": "AAA=", "codecs": ["bytes"], "attributes": {"_nczarr_array": {"type_alias": "string"}}`, `string "|S2"[0 0] [] []`},
		"string":                    {`"data_type": "string", "fill_value": "", "codecs": ["vlen-utf8"], "attributes": {"_nczarr_array": {"type_alias": "string"}}`, `string "|O"[] [] []`},
		"JSON":                      {`"data_type": "uint8", "codecs": ["bytes"], "attributes": {"_nczarr_array": {"type_alias": "json"}}`, `char ">S1"[7] [] []`},
		"char of a migration":       {`"data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}}, "fill_value": "IA==", "codecs": ["bytes"], "attributes": {"_nczarr_array": {"type_alias": "char"}}`, `char ">S1"[32] [] []`},
		"no alias":                  {`"data_type": "uint8", "codecs": ["bytes"], "attributes": {"_nczarr_array": {"type_alias": null}}`, `ubyte "|u1"[7] [] []`},
		"number as fill":            {`"data_type": "uint8", "codecs": ["bytes"], "attributes": {"_FillValue": 32, "_nczarr_array": {"type_alias": "char"}}`, `char ">S1"[7] [] [_FillValue char  ]`},
		"text as fill":              {`"data_type": "uint8", "codecs": ["bytes"], "attributes": {"_FillValue": "q", "_nczarr_array": {"type_alias": "char"}, "_nczarr_attrs": {"attribute_types": [{"name": "_FillValue", "configuration": {"type": ">S1"}}]}}`, `char ">S1"[7] [] [_FillValue char q]`},
		"type wins":                 {`"attributes": {"a": 1.0, "_nczarr_attrs": {"attribute_types": [{"name": "a", "configuration": {"type": "<f4"}}]}}`, `short "<i2"[7 0] [] [a float [1]]`},
		"type of another attribute": {`"attributes": {"a": 1, "_nczarr_attrs": {"attribute_types": [{"name": "b", "configuration": {"type": "<f4"}}]}}`, `short "<i2"[7 0] [] [a int [1]]`},
		"old name":                  {`"attributes": {"a": 1, "_nczarr_attr": {"types": {"a": "<f4"}}}`, `short "<i2"[7 0] [] [a int [1] _nczarr_attr char {"types": {"a": "<f4"}}]`},
		"scalar of shape 1":         {`"shape": [1], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "dimension_names": ["_scalar_"], "attributes": {"_nczarr_array": {"dimension_references": []}}`, `scalar short "<i2"[7 0] [] []`},
		"scalar of no shape":        {`"shape": [], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}}, "attributes": {"_nczarr_array": {}}`, `scalar short "<i2"[7 0] [] []`},
	} {
		docs := v3(c.members)
		a, err := zarr.ParseArray("/g/v", docs, hint3)
		if err != nil || len(a.Warnings) > 0 {
			t.Errorf("%s: want no warnings, got %v, %v", name, a, err)
			continue
		}
		text := strings.Repeat("scalar ", map[bool]int{true: 1}[a.Scalar]) + fmt.Sprintf("%s %q%v %q [", a.DType.NC(), a.DType, a.Fill, a.DimRefs)
		for i, at := range a.Attrs {
			text += strings.Repeat(" ", min(i, 1)) + fmt.Sprintf("%s %s %v", at.Name, at.Type, at.Value)
		}
		if text += "]"; text != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, text)
		}
		// An update keeps the alias and all unknown members.
		opts := write3
		opts.Old = docs
		again, err := a.Docs(opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := zarr.ParseArray("/g/v", again, hint3)
		if err != nil || back.DType != a.DType || !slices.Equal(back.Shape, a.Shape) || fmt.Sprintf("%x %q", back.Fill, back.DimRefs) != fmt.Sprintf("%x %q", a.Fill, a.DimRefs) {
			t.Errorf("%s: rewritten as %s, %v", name, again, err)
		}
	}
}

// TestDraftErrors checks that contradictory or malformed metadata is refused with an error
// that contains the key and the reason.
func TestDraftErrors(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]struct {
		kind ncerr.Kind
		says string
	}{
		`"attributes": {"_nczarr_array": 5}`:                                                          {ncerr.ErrMetadata, "_nczarr_array: expected an object, found 5"},
		`"attributes": {"_nczarr_array": "{"}`:                                                        {ncerr.ErrMetadata, "_nczarr_array"},
		`"attributes": {"_nczarr_array": {"dimension_references": "x"}}`:                              {ncerr.ErrMetadata, "dimension_references: expected an array"},
		`"attributes": {"_nczarr_array": {"dimension_references": ["/x"]}}`:                           {ncerr.ErrMetadata, "dimension_references: expected the names of 2 dimensions"},
		`"attributes": {"_nczarr_array": {"dimension_references": ["/x", "/../y"]}}`:                  {ncerr.ErrMetadata, "dimension_references: expected the names of 2 dimensions"},
		`"attributes": {"_nczarr_array": {"type_alias": 1}}`:                                          {ncerr.ErrMetadata, "type_alias: expected a string, found 1"},
		`"attributes": {"_nczarr_array": {"type_alias": "char"}}`:                                     {ncerr.ErrMetadata, `type_alias: "char" does not apply to the data type "int16"`},
		`"attributes": {"_nczarr_array": {"type_alias": "json"}}`:                                     {ncerr.ErrMetadata, `type_alias: "json" does not apply`},
		`"data_type": "uint8", "attributes": {"_nczarr_array": {"type_alias": "string"}}`:             {ncerr.ErrMetadata, `type_alias: "string" does not apply to the data type "uint8"`},
		`"attributes": {"_nczarr_array": {"type_alias": "bool"}}`:                                     {ncerr.ErrUnsupported, `type_alias: "bool" is not supported`},
		`"attributes": {"_nczarr_attrs": []}`:                                                         {ncerr.ErrMetadata, "_nczarr_attrs: expected an object"},
		`"attributes": {"_nczarr_attrs": {"attribute_types": {"a": "<i4"}}}`:                          {ncerr.ErrMetadata, "attribute_types: expected an array of objects"},
		`"attributes": {"_nczarr_attrs": {"attribute_types": [5]}}`:                                   {ncerr.ErrMetadata, "attribute_types: entry 0: expected an object with name"},
		`"attributes": {"_nczarr_attrs": {"attribute_types": [{"name": "a"}]}}`:                       {ncerr.ErrMetadata, "attribute_types: entry 0"},
		`"attributes": {"_nczarr_attrs": {"attribute_types": [{"configuration": {"type": "<i4"}}]}}`:  {ncerr.ErrMetadata, "attribute_types: entry 0"},
		`"attributes": {"_nczarr_attrs": {"attribute_types": [{"name": "a", "configuration": "x"}]}}`: {ncerr.ErrMetadata, "attribute_types: entry 0"},
	} {
		if !strings.Contains(members, "int16") && strings.Contains(members, "uint8") {
			members += `, "codecs": ["bytes"]`
		}
		_, err := zarr.ParseArray("/g/v", v3(members), hint3)
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), `"/g/v/zarr.json"`) {
			t.Errorf("%s: want %v with %q, got %v", members, want.kind, want.says, err)
		}
		if a, err := zarr.ParseArray("/g/v", v3(members), zarr.ParseHint{Layout: zarr.LayoutV3}); err != nil || a.DimRefs != nil {
			t.Errorf("%s: as pure Zarr: want no references, got %v, %v", members, a, err)
		}
	}
	for attrs, want := range map[string]struct {
		kind ncerr.Kind
		says string
	}{
		`"_nczarr_superblock": {"version": "2.0.0"}`:                               {ncerr.ErrUnsupported, `NCZarr version "2.0.0" in the superblock is not supported`},
		`"_nczarr_superblock": {"version": "4.0.0"}`:                               {ncerr.ErrUnsupported, `NCZarr version "4.0.0"`},
		`"_nczarr_superblock": {"format": 3}`:                                      {ncerr.ErrMetadata, "the superblock has no version"},
		`"_nczarr_superblock": {"version": "3.0.0", "format": 2}`:                  {ncerr.ErrMetadata, "format: expected 3, found 2"},
		`"_nczarr_superblock": 3`:                                                  {ncerr.ErrMetadata, "_nczarr_superblock: expected an object"},
		`"_nczarr_group": {"dimensions": {"x": 3}}`:                                {ncerr.ErrMetadata, "dimensions: expected an array of objects"},
		`"_nczarr_group": {"arrays": 3}`:                                           {ncerr.ErrMetadata, "arrays: expected an array of names"},
		`"_nczarr_group": {"arrays": [], "subgroups": [1]}`:                        {ncerr.ErrMetadata, "subgroups: expected an array of names"},
		`"_nczarr_attrs": {"attribute_types": [[]]}`:                               {ncerr.ErrMetadata, "attribute_types: entry 0"},
		`"_nczarr_attrs": {"attribute_types": [{"name": 1, "configuration": {}}]}`: {ncerr.ErrMetadata, "attribute_types: entry 0"},
	} {
		_, err := zarr.ParseGroup("/g", group3(attrs), zarr.LayoutNCZarr3)
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), `"/g/zarr.json"`) {
			t.Errorf("%s: want %v with %q, got %v", attrs, want.kind, want.says, err)
		}
		if _, err := zarr.ParseGroup("/g", group3(attrs), zarr.LayoutV3); err != nil {
			t.Errorf("%s: as pure Zarr: %v", attrs, err)
		}
	}
	for dim, says := range map[string]string{
		`{"size": 3}`:                        "expected an object with the name of a dimension",
		`{"name": 5, "size": 3}`:             "expected an object with the name of a dimension",
		`{"name": "a/b", "size": 3}`:         "expected an object with the name of a dimension",
		`3`:                                  "expected an object with the name of a dimension",
		`{"name": "x"}`:                      `dimension "x": expected a length`,
		`{"name": "x", "size": -1}`:          `dimension "x": expected a length`,
		`{"name": "x", "size": "long"}`:      `dimension "x": expected a length`,
		`{"name": "x", "size": 1e300}`:       `dimension "x": expected a length`,
		`{"name": "x", "size": {"size": 3}}`: `dimension "x": expected a length`,
	} {
		g, err := zarr.ParseGroup("/g", group3(`"_nczarr_group": {"dimensions": [`+dim+`, {"name": "y", "size": 2}], "arrays": [], "subgroups": []}`), zarr.LayoutNCZarr3)
		if err != nil || len(g.Dims) != 1 || !g.DimsIncomplete || len(g.Invalid) != 1 || !strings.Contains(g.Invalid[0].Error(), says) || !strings.Contains(g.Invalid[0].Error(), `"/g/zarr.json"`) {
			t.Errorf("%s: want %q, got %+v, %v", dim, says, g, err)
		}
	}
}

// TestNCZarr3Documents checks the documents that are written, character by character.
func TestNCZarr3Documents(t *testing.T) {
	t.Parallel()
	root := zarr.Group{
		NCProperties: "p", Dims: []zarr.Dim{{Name: "t", Len: 2, Unlimited: true}, {Name: "x", Len: 3}}, Arrays: []string{"v"}, Groups: []string{"g"},
		Attrs: []zarr.Attr{
			{Name: "text", Type: dtype.NCChar, Value: "T"},
			{Name: "one", Type: dtype.NCString, Value: []string{"s"}},
			{Name: "nan", Type: dtype.NCDouble, Value: []float64{1, math.NaN()}},
			{Name: "b", Type: dtype.NCByte, Value: []int8{-1}, JSON: `"-1"`},
			{Name: "f", Type: dtype.NCFloat, Value: []float32{1}, JSON: "1"},
			{Name: "flag", Type: dtype.NCUByte, Value: []uint8{1}, JSON: "true"},
			{Name: "tree", Type: dtype.NCChar, Value: `{"a": [1]}`},
		},
	}
	opts := write3
	opts.IsRoot = true
	docs, err := root.Docs(opts)
	want := `{"zarr_format": 3, "node_type": "group", "attributes": {"text": "T", "one": "s", "nan": [1.0,NaN], "b": -1, "f": 1.0, "flag": true, "tree": {"a": [1]}, "_NCProperties": "p", ` +
		`"_nczarr_group": {"dimensions": [{"name": "t", "size": 2, "unlimited": 1},{"name": "x", "size": 3, "unlimited": 0}], "arrays": ["v"], "subgroups": ["g"]}, "_nczarr_superblock": {"version": "3.0.0", "format": 3}, ` +
		`"_nczarr_attrs": {"attribute_types": [` + types3("text", "char", "one", "string", "nan", "<f8", "b", "|i1", "f", "<f4", "flag", "|u1", "tree", "json", "_NCProperties", "char", "_nczarr_group", "json", "_nczarr_superblock", "json", "_nczarr_attrs", "json") + `]}}}`
	if got := string(docs["zarr.json"]); err != nil || got != want {
		t.Errorf("want %s\ngot  %s, %v", want, got, err)
	}
	char := zarr.Array{
		Shape: []int64{3}, Chunks: []int64{2}, DType: dtype.NCChar.Type(dtype.OrderNone), Fill: []byte{'-'}, HasFill: true, Keys: chunk.Keys{Prefix: true, Separator: '/'}, DimRefs: []string{"/g/x"},
		Attrs: []zarr.Attr{{Name: "_FillValue", Type: dtype.NCChar, Value: "-"}},
	}
	docs, err = char.Docs(write3)
	want = `{"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "uint8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, ` +
		`"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 45, "codecs": [{"name": "bytes"}], "dimension_names": ["x"], ` +
		`"attributes": {"_nczarr_fillvalue": "LQ==", "_nczarr_array": {"dimension_references": ["/g/x"], "type_alias": "char"}, "_nczarr_attrs": {"attribute_types": [` + types3("_nczarr_fillvalue", "char", "_nczarr_array", "json", "_nczarr_attrs", "json") + `]}}}`
	if got := string(docs["zarr.json"]); err != nil || got != want {
		t.Errorf("want %s\ngot  %s, %v", want, got, err)
	}
	for name, c := range map[string]struct {
		t    dtype.Type
		fill any
		want string
	}{
		"string": {dtype.Type{Kind: dtype.String}, []string{"f"}, `"attributes": {"_nczarr_fillvalue": "f", "_nczarr_array": {"dimension_references": []}`},
		"bytes":  {dtype.Type{Kind: dtype.VlenBytes}, []string{"f"}, `"attributes": {"_nczarr_fillvalue": "Zg==", "_nczarr_array": {"dimension_references": [], "type_alias": "string"}`},
		"fixed":  {dtype.Type{Kind: dtype.Bytes, Size: 4}, []string{"f"}, `"attributes": {"_nczarr_fillvalue": "Zg==", "_nczarr_array": {"dimension_references": [], "type_alias": "string"}`},
		"float":  {dtype.NCFloat.Type(dtype.Little), []float32{-9999}, `"attributes": {"_FillValue": "AAAAAICHw8A=", "_nczarr_array": {"dimension_references": []}`},
	} {
		a := zarr.Array{Shape: []int64{}, Chunks: []int64{}, Scalar: true, DimRefs: []string{}, DType: c.t, Fill: []byte{}, HasFill: !c.t.Fixed(), Keys: chunk.Keys{Prefix: true, Separator: '/'}}
		nc, _ := dtype.TypeOf(c.fill)
		a.Attrs = []zarr.Attr{{Name: "_FillValue", Type: nc, Value: c.fill}}
		if !c.t.Fixed() {
			a.Codecs = []zarr.CodecSpec{{ID: map[bool]string{true: "vlen-utf8", false: "vlen-bytes"}[c.t.Kind == dtype.String]}}
		}
		docs, err := a.Docs(write3)
		if err != nil || !strings.Contains(string(docs["zarr.json"]), c.want) {
			t.Errorf("%s: want %s, got %s, %v", name, c.want, docs, err)
			continue
		}
		back, err := zarr.ParseArray("/", docs, hint3)
		if err != nil || back.DType != c.t || len(back.Attrs) != 1 || back.Attrs[0].Name != "_FillValue" || !reflect.DeepEqual(back.Attrs[0].Value, c.fill) {
			t.Errorf("%s: %s parsed as %+v, %v", name, docs, back, err)
		}
	}
}

// types3 returns the entries of attribute_types for names and types.
func types3(pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf(`{"name": %q, "configuration": {"type": %q}}`, pairs[i], pairs[i+1]))
	}
	return strings.Join(list, ",")
}

// TestNCZarr3Keeps checks that a rewritten zarr.json keeps the JSON of unchanged attributes
// and all members that other software added to the document, its attributes and its blocks.
func TestNCZarr3Keeps(t *testing.T) {
	t.Parallel()
	docs := group3(`"odd": [1, null], "whole": 1, "": 2, "_ARRAY_DIMENSIONS": 3, "_nczarr_superblock": {"version": "3.0.0", "by": "us"}, "_nczarr_group": {"dimensions": [{"name": "y", "size": 2, "unit": "m"}], "arrays": ["a"], "subgroups": [], "note": {"x": 1}},
		"_nczarr_attrs": {"attribute_types": [{"name": "whole", "configuration": {"type": "float64", "by": "us"}}, {"name": "odd", "configuration": {"type": "char"}}], "more": true}}, "own": {"must_understand": false`)
	g, err := zarr.ParseGroup("/", docs, zarr.LayoutNCZarr3)
	if err != nil {
		t.Fatal(err)
	}
	g.Dims[0].Len++
	g.Dims = append(g.Dims, zarr.Dim{Name: "x", Len: 1})
	g.Attrs = append(g.Attrs, zarr.Attr{Name: "new", Type: dtype.NCShort, Value: []int16{7}})
	got, err := g.Docs(zarr.WriteOptions{Layout: zarr.LayoutNCZarr3, IsRoot: true, Old: docs})
	want := group3(`"odd": [1, null], "whole": 1, "new": 7, "": 2, "_ARRAY_DIMENSIONS": 3, "_nczarr_superblock": {"version": "3.0.0", "format": 3, "by": "us"},
		"_nczarr_group": {"dimensions": [{"name": "y", "size": 3, "unlimited": 0, "unit": "m"}, {"name": "x", "size": 1, "unlimited": 0}], "arrays": ["a"], "subgroups": [], "note": {"x": 1}},
		"_nczarr_attrs": {"attribute_types": [` + types3("odd", "json") + `, {"name": "whole", "configuration": {"type": "float64", "by": "us"}}, ` + types3("new", "<i2", "_nczarr_group", "json", "_nczarr_superblock", "json", "_nczarr_attrs", "json") + `], "more": true}}, "own": {"must_understand": false`)
	if err != nil || !zarr.SameJSON(want["zarr.json"], got["zarr.json"]) {
		t.Errorf("want %s\ngot  %s, %v", want, got, err)
	}
}

// TestNCZarr3RoundTrip checks that groups and arrays survive a round trip with all their
// types.
func TestNCZarr3RoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := drawArray(t)
		want.Layout, want.Transpose, want.Storage, want.NoCompressor = zarr.LayoutNCZarr3, nil, "", false
		want.Keys.Prefix = rapid.Bool().Draw(t, "prefix")
		want.Scalar = len(want.Shape) == 0
		if !want.HasFill {
			want.HasFill, want.Fill = true, make([]byte, want.DType.Size)
		}
		if want.Scalar {
			want.DimNames = nil
		}
		for i := range want.Codecs {
			want.Codecs[i].Params = json.RawMessage(fmt.Sprintf(`{"id": %q}`, want.Codecs[i].ID))
		}
		docs, err := want.Docs(write3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := zarr.ParseArray("v", docs, hint3)
		if err != nil || len(got.Warnings) > 0 {
			t.Fatalf("%v %q: %s", err, got.Warnings, docs)
		}
		opts := write3
		opts.Old = docs
		if again, err := got.Docs(opts); err != nil || string(again["zarr.json"]) != string(docs["zarr.json"]) {
			t.Fatalf("%s became %s, %v", docs, again, err)
		}
		dropJSON(got.Attrs)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want\n%+v, got\n%+v from %s", want, got, docs)
		}
	})
	rapidseed.Check(t, func(t *rapid.T) {
		want := &zarr.Group{Layout: zarr.LayoutNCZarr3, Superblock: "3.0.0", Listed: true, Attrs: drawAttrs(t), NCProperties: "p"}
		for i := range rapid.IntRange(0, 3).Draw(t, "n") {
			want.Dims = append(want.Dims, zarr.Dim{Name: fmt.Sprintf("d %d", i), Len: rapid.Int64Min(0).Draw(t, "len"), Unlimited: rapid.Bool().Draw(t, "unlimited")})
			want.Arrays = append(want.Arrays, fmt.Sprintf("v\"%d", i))
			want.Groups = append(want.Groups, fmt.Sprintf("gé%d", i))
		}
		docs, err := want.Docs(zarr.WriteOptions{Layout: zarr.LayoutNCZarr3, IsRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := zarr.ParseGroup("/", docs, zarr.LayoutNCZarr3)
		if err != nil {
			t.Fatal(err)
		}
		if dropJSON(got.Attrs); len(got.Attrs) == 0 {
			got.Attrs = nil
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want\n%+v, got\n%+v from %s", want, got, docs)
		}
	})
}

// FuzzNCZarr3 parses arbitrary bytes as the zarr.json of a group and of an array of
// NCZarr 3. The document written from the result must parse to the same result, and
// writing it again must not change it.
func FuzzNCZarr3(f *testing.F) {
	f.Add(string(group3(draftRoot)["zarr.json"]))
	f.Add(string(group3(`"_nczarr_group": {"dimensions": [{"name": "x"}, 3, {"name": "x", "size": 1}, {"name": "x", "size": 2}]}`)["zarr.json"]))
	f.Add(string(group3(`"a": {"": [00, {"b": 00}]}`)["zarr.json"]))
	f.Add(string(v3(draftChar)["zarr.json"]))
	f.Add(string(v3(draftString)["zarr.json"]))
	f.Add(string(v3(`"attributes": {"a": NaN, "_FillValue": 3, "_nczarr_array": {"dimension_references": ["/x", "y"]}, "_nczarr_attrs": {"attribute_types": [{"name": "a", "configuration": {"type": "<f8"}}]}}`)["zarr.json"]))
	f.Fuzz(func(t *testing.T, text string) {
		docs := zarr.Docs{"zarr.json": []byte(text)}
		checkAllocations(t, len(text), func() { _, _ = zarr.DetectLayout(docs, false) })
		opts := zarr.WriteOptions{Layout: zarr.LayoutNCZarr3, IsRoot: true, Old: docs}
		if g, err := zarr.ParseGroup("/", docs, zarr.LayoutNCZarr3); err == nil {
			again, err := g.Docs(opts)
			if err != nil {
				t.Fatalf("group: %v", err)
			}
			back, err := zarr.ParseGroup("/", again, zarr.LayoutNCZarr3)
			if err != nil || fmt.Sprint(g.Dims, g.Arrays, g.Groups) != fmt.Sprint(back.Dims, back.Arrays, back.Groups) || shownAttrs(g.Attrs) != shownAttrs(back.Attrs) {
				t.Fatalf("group: %s became %s, %v", text, again, err)
			}
			opts.Old = again
			if twice, err := back.Docs(opts); err != nil || string(twice["zarr.json"]) != string(again["zarr.json"]) {
				t.Fatalf("group: %s was rewritten as %s, %v", again, twice, err)
			}
		}
		a, err := zarr.ParseArray("/", docs, hint3)
		if err != nil {
			return
		}
		opts.Old = docs
		again, err := a.Docs(opts)
		if ncerr.KindOf(err) == ncerr.ErrUnsupported { // the array can be read but not written
			return
		}
		if err != nil {
			t.Fatalf("array: %v", err)
		}
		back, err := zarr.ParseArray("/", again, hint3)
		if err != nil || back.DType != a.DType || fmt.Sprintf("%v %v %x %q %q", a.Shape, a.Scalar, a.Fill, a.DimRefs, a.DimNames) != fmt.Sprintf("%v %v %x %q %q", back.Shape, back.Scalar, back.Fill, back.DimRefs, back.DimNames) || shownAttrs(a.Attrs) != shownAttrs(back.Attrs) {
			t.Fatalf("array: %s became %s, %v", text, again, err)
		}
	})
}

// shownAttrs formats attributes for comparison. It omits the values of char attributes
// that are not JSON strings, because writing them as strict JSON changes their text.
func shownAttrs(list []zarr.Attr) string {
	text := ""
	for _, a := range list {
		if a.Type == dtype.NCChar && !strings.HasPrefix(a.JSON, `"`) {
			a.Value = nil
		}
		text += fmt.Sprintf("%q %v %q;", a.Name, a.Type, fmt.Sprint(a.Value))
	}
	return text
}
