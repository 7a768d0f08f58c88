package zarr_test

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

var writeV3 = zarr.WriteOptions{Layout: zarr.LayoutV3}

// rewriteV3 writes a, which was parsed from docs, as a replacement of docs and as a new
// array. It checks that the replacement has the content of docs, and that the new
// document parses to the same array.
func rewriteV3(t *testing.T, docs zarr.Docs, a *zarr.Array) {
	t.Helper()
	opts := writeV3
	opts.Old = docs
	again, err := a.Docs(opts)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // a type that can only be read
		return
	}
	if err != nil || !zarr.SameJSON(docs["zarr.json"], again["zarr.json"]) {
		t.Fatalf("%s rewritten as %s, %v", docs, again, err)
	}
	fresh, err := a.Docs(writeV3)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported {
		return
	}
	if err != nil {
		t.Fatalf("%s cannot be written: %v", docs, err)
	}
	back, err := zarr.ParseArray("/", fresh, zarr.ParseHint{Layout: zarr.LayoutV3})
	if err != nil {
		t.Fatalf("%s written as %s: %v", docs, fresh, err)
	}
	shown := func(a *zarr.Array) string {
		shards := slices.Clone(a.Shards)
		for i := range shards {
			shards[i].Grid = nil // shown below
		}
		text := fmt.Sprintf("%v %v %v %v %v %v %v %v %q %d %q %v", a.Shape, a.Chunks, a.ObjectGrid().Runs(), shards, a.Scalar, a.Transpose, a.DType, a.Fields, a.Fill, a.ArrayCodecs, a.DimNames, a.Keys)
		for _, c := range a.Codecs {
			text += fmt.Sprintf(" %q", c.ID)
		}
		for _, at := range a.Attrs {
			text += fmt.Sprintf(" %q %v %q", at.Name, at.Type, fmt.Sprint(at.Value))
		}
		return text
	}
	if x, y := shown(a), shown(back); x != y {
		t.Fatalf("%s written as %s\n%s became\n%s", docs, fresh, x, y)
	}
	if twice, err := back.Docs(writeV3); err != nil || !zarr.SameJSON(fresh["zarr.json"], twice["zarr.json"]) {
		t.Fatalf("%s became %s when rewritten, %v", fresh, twice, err)
	}
}

// TestV3AsZarrPython compares the documents of arrays with documents written by
// zarr-python, for all types and codecs. See testdata/README.
func TestV3AsZarrPython(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/zarr-python-3.4.2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 40 {
		t.Fatalf("want at least 40 documents, got %d", len(lines))
	}
	for _, line := range lines {
		docs := zarr.Docs{"zarr.json": []byte(line)}
		a, err := zarr.ParseArray("/", docs, zarr.ParseHint{Layout: zarr.LayoutV3})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got, err := a.Docs(writeV3)
		want := strings.Replace(line, `, "storage_transformers": []`, "", 1)
		if err != nil || !zarr.SameJSON([]byte(want), got["zarr.json"]) {
			t.Errorf("want %s\ngot  %s, %v", want, got, err)
		}
		rewriteV3(t, docs, a)
	}
}

// arrayV3 returns an array of six elements of a type.
func arrayV3(text string) *zarr.Array {
	typ, err := dtype.Parse(text)
	if err != nil {
		panic(err)
	}
	return &zarr.Array{Shape: []int64{6}, Chunks: []int64{2}, DType: typ, Keys: chunk.Keys{Prefix: true, Separator: '/'}}
}

// memberOf writes an array and returns a member of its zarr.json.
func memberOf(t *testing.T, a *zarr.Array, name string) string {
	t.Helper()
	docs, err := a.Docs(writeV3)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(docs["zarr.json"]), `"`+name+`": `)
	for _, next := range []string{`, "codecs": `, `, "attributes": `, `, "dimension_names": `} {
		text, _, _ = strings.Cut(text, next)
	}
	return strings.TrimSuffix(text, "}")
}

// TestV3Fill checks that fill values survive bit for bit, and that hexadecimal is used
// only where necessary.
func TestV3Fill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, fill, want string }{
		{"<f4", "\x00\x00\xc0\x7f", `"NaN"`},
		{"<f4", "\x01\x00\xc0\x7f", `"0x7fc00001"`},
		{"<f4", "\x00\x00\xc0\xff", `"0xffc00000"`},
		{">f4", "\x7f\xc0\x00\x01", `"0x7fc00001"`},
		{"<f2", "\x01\x7c", `"0x7c01"`},
		{"<f8", "\x00\x00\x00\x00\x00\x00\xf8\x7f", `"NaN"`},
		{"<f8", "\x01\x00\x00\x00\x00\x00\xf8\x7f", `"0x7ff8000000000001"`},
		{"<f4", "\x00\x00\x80\x3f", `1.0`},
		{"<f4", "\x00\x00\x00\x80", `-0.0`},
		{"<f2", "\x00\xfc", `"-Infinity"`},
		{"<c8", "\x01\x00\xc0\x7f\x00\x00\x80\x3f", `["0x7fc00001",1.0]`},
		{"<u8", "\xff\xff\xff\xff\xff\xff\xff\xff", `18446744073709551615`},
		{"<M8[s]", "\x00\x00\x00\x00\x00\x00\x00\x80", `-9223372036854775808`},
		{"|b1", "\x01", `true`},
		{"|S3", "a\x00\x00", `"YQ=="`},
		{"|V2", "\x00\x01", `"AAE="`},
		{"|i1", "", `0`},
		{"|b1", "", `false`},
		{"|S3", "", `""`},
	} {
		a := arrayV3(c.typ)
		a.Fill, a.HasFill = []byte(c.fill), c.fill != ""
		if got := memberOf(t, a, "fill_value"); got != c.want {
			t.Errorf("%s %q: want %s, got %s", c.typ, c.fill, c.want, got)
		}
		docs, err := a.Docs(writeV3)
		if err != nil {
			t.Fatal(err)
		}
		back, err := zarr.ParseArray("/", docs, zarr.ParseHint{Layout: zarr.LayoutV3})
		if err != nil || c.fill != "" && string(back.Fill) != c.fill {
			t.Errorf("%s %q: got %q, %v", c.typ, c.fill, back.Fill, err)
		}
	}
}

// TestV3Chains checks that v2 codecs are written as the v3 codecs that readers support.
func TestV3Chains(t *testing.T) {
	t.Parallel()
	const little = `{"name": "bytes","configuration": {"endian": "little"}}`
	for _, c := range []struct {
		typ, codecs string
		arrays      int
		want        string
	}{
		{"<i4", ``, 0, little},
		{">i4", ``, 0, `{"name": "bytes","configuration": {"endian": "big"}}`},
		{"|u1", ``, 0, `{"name": "bytes"}`},
		{"<i4", `{"id": "gzip", "level": -1}`, 0, little + `,{"name": "gzip","configuration": {"level": 6}}`},
		{"<i4", `{"id": "zlib", "level": 1}`, 0, little + `,{"name": "numcodecs.zlib","configuration": {"level": 1}}`},
		{"<i4", `{"id": "crc32c", "location": "end"}`, 0, little + `,{"name": "crc32c"}`},
		{"<i4", `{"id": "crc32c", "location": "start"}`, 0, little + `,{"name": "numcodecs.crc32c","configuration": {"location": "start"}}`},
		{"<i4", `{"id": "blosc", "shuffle": -1}`, 0, little + `,{"name": "blosc","configuration": {"shuffle": "shuffle","typesize": 4}}`},
		{"|i1", `{"id": "blosc", "shuffle": 4294967295}`, 0, `{"name": "bytes"},{"name": "blosc","configuration": {"shuffle": "bitshuffle","typesize": 1}}`},
		{"<i4", `{"id": "blosc", "shuffle": "NONE", "typesize": 8}`, 0, little + `,{"name": "blosc","configuration": {"shuffle": "noshuffle","typesize": 4}}`},
		{"<i4", `{"id": "delta", "dtype": "<i4"} {"id": "shuffle", "elementsize": 4}`, 1, `{"name": "numcodecs.delta","configuration": {"dtype": "<i4"}},` + little + `,{"name": "numcodecs.shuffle","configuration": {"elementsize": 4}}`},
		{"|u1", `{"id": "astype", "encode_dtype": "<i2"}`, 1, `{"name": "numcodecs.astype","configuration": {"encode_dtype": "<i2"}},` + little},
		{"<i4", `{"id": "scale_offset", "scale": 2} {"id": "cast_value", "data_type": "<u2"}`, 2, `{"name": "scale_offset","configuration": {"scale": 2}},{"name": "cast_value","configuration": {"data_type": "uint16"}},` + little},
		{"<i4", `{"id": "zarr.packbits", "last_bit": 9} {"id": "gzip", "level": 1}`, 0, `{"name": "packbits","configuration": {"last_bit": 9}},{"name": "gzip","configuration": {"level": 1}}`},
		{"|O", `{"id": "vlen-utf8"} {"id": "zstd", "level": 3}`, 0, `{"name": "vlen-utf8","configuration": {}},{"name": "zstd","configuration": {"level": 3}}`},
	} {
		a := arrayV3(c.typ)
		for text := range strings.FieldsFuncSeq(strings.ReplaceAll(c.codecs, "} {", "}|{"), func(r rune) bool { return r == '|' }) {
			_, id, _ := strings.Cut(text, `"id": "`)
			id, _, _ = strings.Cut(id, `"`)
			a.Codecs = append(a.Codecs, zarr.CodecSpec{ID: id, Params: []byte(text)})
		}
		a.ArrayCodecs = c.arrays
		want := "[" + strings.ReplaceAll(c.want, `",`, `", `) + "]"
		if got := memberOf(t, a, "codecs"); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s %s: want %s, got %s", c.typ, c.codecs, want, got)
		}
	}
	for name, change := range map[string]func(a *zarr.Array){
		"big endian":   func(a *zarr.Array) { a.DType.Order, a.ArrayCodecs = dtype.Big, 1 },
		"text":         func(a *zarr.Array) { a.DType = dtype.Type{Kind: dtype.String} },
		"text as json": func(a *zarr.Array) { a.DType, a.Codecs[0].ID = dtype.Type{Kind: dtype.String}, "json2" },
		"numbers":      func(a *zarr.Array) { a.Codecs[0].ID = "vlen-utf8" },
		"whole chunks": func(a *zarr.Array) { a.Shards = []zarr.Shard{{Shape: []int64{3}}} },
		"shard rank":   func(a *zarr.Array) { a.Shards = []zarr.Shard{{Shape: []int64{4, 4}}} },
		"structured":   func(a *zarr.Array) { a.DType, a.Fields = dtype.Type{Kind: dtype.Raw, Size: 4}, []zarr.Field{{}} },
	} {
		a := arrayV3("<i4")
		a.Codecs = []zarr.CodecSpec{{ID: "delta"}}
		change(a)
		if _, err := a.Docs(writeV3); ncerr.KindOf(err) != ncerr.ErrUnsupported && ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%s: want ErrUnsupported or ErrInvalid, got %v", name, err)
		}
	}
}

// TestV3Attributes checks that _FillValue is written as xarray expects, and that reserved
// names are refused.
func TestV3Attributes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ  string
		attr zarr.Attr
		want string
	}{
		{"<f4", zarr.Attr{Name: "_FillValue", Type: dtype.NCFloat, Value: []float32{-9999}, JSON: "-9999.0"}, `"_FillValue": "AAAAAICHw8A="`},
		{"<f8", zarr.Attr{Name: "_FillValue", Type: dtype.NCDouble, Value: []float64{-9999}}, `"_FillValue": "AAAAAICHw8A="`},
		{"<i4", zarr.Attr{Name: "_FillValue", Type: dtype.NCInt, Value: []int32{-9}}, `"_FillValue": -9`},
		{"|S3", zarr.Attr{Name: "_FillValue", Type: dtype.NCString, Value: []string{"ab"}}, `"_nczarr_fillvalue": "YWI="`},
		{"|S1", zarr.Attr{Name: "_FillValue", Type: dtype.NCChar, Value: "\xff"}, `"_nczarr_fillvalue": "/w=="`},
		{"|S1", zarr.Attr{Name: "_FillValue", Type: dtype.NCChar, Value: "\x00"}, `"_nczarr_fillvalue": "AA=="`},
		{"|O", zarr.Attr{Name: "_FillValue", Type: dtype.NCString, Value: []string{"ab"}}, `"_nczarr_fillvalue": "ab"`},
		{"<f4", zarr.Attr{Name: "missing_value", Type: dtype.NCDouble, Value: []float64{-9999}, JSON: "-9.999e3"}, `"missing_value": -9.999e3`},
		{"<f4", zarr.Attr{Name: "missing_value", Type: dtype.NCDouble, Value: []float64{1}, JSON: "2.0"}, `"missing_value": 1.0`},
	} {
		a := arrayV3(c.typ)
		switch {
		case !a.DType.Fixed():
			a.Codecs = []zarr.CodecSpec{{ID: "vlen-utf8"}}
		case c.typ == "|S1":
			a.DType = dtype.NCChar.Type(dtype.OrderNone)
		}
		a.Attrs = []zarr.Attr{c.attr}
		docs, err := a.Docs(writeV3)
		if err != nil || !strings.Contains(string(docs["zarr.json"]), `"attributes": {`+c.want+`}`) {
			t.Errorf("%s %v: want %s, got %s, %v", c.typ, c.attr, c.want, docs, err)
			continue
		}
		back, err := zarr.ParseArray("/", docs, zarr.ParseHint{Layout: zarr.LayoutV3})
		if err != nil || len(back.Attrs) != 1 || back.Attrs[0].Type != c.attr.Type || !reflect.DeepEqual(back.Attrs[0].Value, c.attr.Value) {
			t.Errorf("%s: want %v, got %v, %v", docs, c.attr, back.Attrs, err)
		}
	}
	for _, name := range []string{"_ARRAY_DIMENSIONS", "_nczarr_array", "_nczarr_attrs"} {
		a := arrayV3("<i4")
		a.Attrs = []zarr.Attr{{Name: name, Type: dtype.NCChar, Value: "x"}}
		if _, err := a.Docs(writeV3); ncerr.KindOf(err) != ncerr.ErrBadName {
			t.Errorf("attribute %s: want ErrBadName, got %v", name, err)
		}
	}
}

// TestV3Keeps checks that a rewritten zarr.json keeps the members of other writers.
func TestV3Keeps(t *testing.T) {
	t.Parallel()
	docs := v3(`"x": {"must_understand": false, "a": [NaN]}, "data_type": "r16", "codecs": ["bytes"], "fill_value": [1, 2], "storage_transformers": [],
		"attributes": {"a": null, "_ARRAY_DIMENSIONS": ["p"], "_nczarr_array": {"dimension_references": ["/p"]}, "_nczarr_fillvalue": "YQ==", "b": [1, NaN], "c": true, "d": {"e": 1}}`)
	a, err := zarr.ParseArray("/", docs, zarr.ParseHint{Layout: zarr.LayoutV3})
	if err != nil {
		t.Fatal(err)
	}
	a.Shape[0] = 5
	a.Attrs = slices.DeleteFunc(a.Attrs, func(a zarr.Attr) bool { return a.Name == "c" })
	a.Attrs = append(a.Attrs, zarr.Attr{Name: "new", Type: dtype.NCInt, Value: []int32{3}})
	opts := writeV3
	opts.Old = docs
	got, err := a.Docs(opts)
	want := strings.NewReplacer("[4, 6]", "[5, 6]", `"c": true, "d": {"e": 1}`, `"d": {"e": 1}, "new": 3`).Replace(string(docs["zarr.json"]))
	if err != nil || !zarr.SameJSON([]byte(want), got["zarr.json"]) || !strings.Contains(string(got["zarr.json"]), "NaN") || strings.Contains(string(got["zarr.json"]), `"NaN"`) {
		t.Errorf("want %s\ngot  %s, %v", want, got, err)
	}
}

// TestV3WithInline checks that consolidated metadata can be written, replaced, removed
// and parsed.
func TestV3WithInline(t *testing.T) {
	t.Parallel()
	root := zarr.Docs{"zarr.json": []byte(`{"zarr_format": 3, "consolidated_metadata": {"kind": "inline", "metadata": {"gone": {}}}, "node_type": "group"}`)}
	nodes := map[string]zarr.Docs{"bad": {"zarr.json": []byte("{")}, "g": {"zarr.json": []byte(`{"node_type": "group", "consolidated_metadata": {"x": 1}}`)}, "g/a": v3(""), "empty": {}}
	got, err := zarr.WithConsolidated(root, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := zarr.ParseInline(got)
	if err != nil || len(all) != 3 || !zarr.SameJSON(all["g/a"]["zarr.json"], nodes["g/a"]["zarr.json"]) ||
		!zarr.SameJSON(all["g"]["zarr.json"], []byte(`{"node_type": "group", "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}`)) {
		t.Errorf("want the documents of the root, g and g/a, got %s, %v", all, err)
	}
	if got, err = zarr.WithConsolidated(got, nil, nil); err != nil || !zarr.SameJSON(got["zarr.json"], []byte(`{"zarr_format": 3, "node_type": "group"}`)) {
		t.Errorf("want no consolidated metadata, got %s, %v", got, err)
	}
	if _, err := zarr.WithConsolidated(zarr.Docs{"zarr.json": []byte("{")}, nodes, nil); ncerr.KindOf(err) != ncerr.ErrNotZarr {
		t.Errorf("malformed root: want ErrNotZarr, got %v", err)
	}
}

// TestNonFiniteAttrsV3 checks that NaN and infinities are written as bare words, as in
// zarr-python, because Python reads quoted words as strings. A single number is written
// as a list only if it was read from a list.
func TestNonFiniteAttrsV3(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, c := range []struct {
		want string
		a    zarr.Attr
	}{
		{"NaN", zarr.Attr{Type: dtype.NCDouble, Value: []float64{nan}}},
		{"Infinity", zarr.Attr{Type: dtype.NCFloat, Value: []float32{float32(math.Inf(1))}}},
		{"[1.0,NaN,-Infinity]", zarr.Attr{Type: dtype.NCDouble, Value: []float64{1, nan, math.Inf(-1)}}},
		{"-Infinity", zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Inf(-1)}, JSON: "-Infinity"}},
		{"[NaN]", zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Float64frombits(0x7ff8000000000000)}, JSON: "[NaN]"}},
		{"NaN", zarr.Attr{Type: dtype.NCDouble, Value: []float64{math.Float64frombits(0x7ff8000000000000)}, JSON: `["NaN"]`}},
		{"1.0", zarr.Attr{Type: dtype.NCDouble, Value: []float64{1}}},
	} {
		a, want := c.a, c.want
		a.Name = "a"
		docs, err := (&zarr.Group{Attrs: []zarr.Attr{a}}).Docs(writeV3)
		if text := strings.Join(strings.Fields(string(docs["zarr.json"])), ""); err != nil || !strings.Contains(text, `{"a":`+want+"}") {
			t.Errorf("want %s, got %s, %v", want, text, err)
			continue
		}
		g, err := zarr.ParseGroup("", docs, zarr.LayoutV3)
		if err != nil || len(g.Attrs) != 1 || g.Attrs[0].Type != dtype.NCDouble || dtype.Len(g.Attrs[0].Value) != dtype.Len(a.Value) {
			t.Errorf("%s: parsed as %v, %v", want, g, err)
		}
	}
}
