package zarr_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

func zarray(members string) []byte {
	return []byte(`{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": null, "filters": null` + members + `}`)
}

func TestInferredAttributes(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]any{
		`1`:                        []int32{1},
		`-2147483648`:              []int32{math.MinInt32},
		`2147483648`:               []uint32{2147483648},
		`4294967296`:               []int64{4294967296},
		`-2147483649`:              []int64{-2147483649},
		`9223372036854775807`:      []int64{math.MaxInt64},
		`9223372036854775808`:      []uint64{9223372036854775808},
		`18446744073709551616`:     []float64{18446744073709551616},
		`1.0`:                      []float64{1},
		`1e3`:                      []float64{1000},
		`NaN`:                      []float64{math.NaN()},
		`-Infinity`:                []float64{math.Inf(-1)},
		`"NaN"`:                    "NaN",
		`true`:                     []uint8{1},
		`[true,false]`:             []uint8{1, 0},
		`""`:                       "",
		`"a\u0000b"`:               "a\x00b",
		`"\udcb0C"`:                "\xb0C",
		`[]`:                       []int32{},
		`[1,2.5]`:                  []float64{1, 2.5},
		`[2.5,1]`:                  []float64{2.5, 1},
		`[1,3000000000]`:           []uint32{1, 3000000000},
		`[-1,3000000000]`:          []int64{-1, 3000000000},
		`[1,9223372036854775808]`:  []uint64{1, 9223372036854775808},
		`[-1,9223372036854775808]`: []float64{-1, 9223372036854775808},
		`[1.5,"NaN"]`:              []float64{1.5, math.NaN()},
		`["a","b"]`:                []string{"a", "b"},
		`["NaN"]`:                  []float64{math.NaN()},
		`["NaN","a"]`:              []string{"NaN", "a"},
		`null`:                     "null",
		`{"a":  [1, 2]}`:           `{"a":  [1, 2]}`,
		`[[1,2],[3,4]]`:            `[[1,2],[3,4]]`,
		`[1,"a"]`:                  `[1,"a"]`,
		`[1,true]`:                 `[1,true]`,
		`[null]`:                   `[null]`,
		`0x10`:                     "0x10",
		`"say \"hi\""`:             `say "hi"`,
	} {
		g, err := zarr.ParseGroup("/", zarr.Docs{".zattrs": []byte(`{"a": ` + json + `}`)}, zarr.LayoutNewest)
		if err != nil {
			t.Errorf("%s: %v", json, err)
			continue
		}
		if got := g.Attrs[0]; show(got.Value) != show(want) {
			t.Errorf("%s: want %s, got %s", json, show(want), show(got.Value))
		} else if nc, _ := dtype.TypeOf(got.Value); nc != got.Type {
			t.Errorf("%s: %s is not of type %v", json, show(got.Value), got.Type)
		}
	}
}

func TestTypedAttributes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ, json string
		want      any
		warn      bool
	}{
		{"<i2", "[1,2]", []int16{1, 2}, false},
		{">i8", "9223372036854775807", []int64{math.MaxInt64}, false},
		{"<u8", "18446744073709551615", []uint64{math.MaxUint64}, false},
		{"|u1", "300", []int32{300}, true},
		{"<i4", "1.0", []int32{1}, false},
		{"<i4", "1.5", []float64{1.5}, true},
		{"<i4", `"abc"`, "abc", true},
		{"<i4", `"5"`, []int32{5}, false},
		{"<f4", "0.1", []float32{0.1}, false},
		{"<f4", `"NaN"`, []float32{float32(math.NaN())}, false},
		{"<f8", "Infinity", []float64{math.Inf(1)}, false},
		{"<f8", "1", []float64{1}, false},
		{"<f8", "[]", []float64{}, false},
		{">S1", `"abc"`, "abc", false},
		{">S1", "42", "42", false},
		{">S1", "1.50", "1.50", false},
		{">S1", "true", "true", false},
		{">S1", "null", "null", false},
		{">S1", "NaN", "NaN", false},
		{">S1", "[1, 2]", "[1, 2]", false},
		{"<U1", `{"a":1}`, `{"a":1}`, false},
		{"|J0", `{"a":1}`, `{"a":1}`, false},
		{"2", `"v1"`, "v1", false},
		{"5", "1", []float32{1}, false},
		{"99", "1", []int32{1}, true},
		{"wat", "1", []int32{1}, true},
		{"|S128", `["a","b"]`, []string{"a", "b"}, false},
		{"|S128", `"a"`, []string{"a"}, false},
		{"|S128", `[]`, []string{}, false},
	} {
		doc := fmt.Sprintf(`{"a": %s, "_nczarr_attr": {"types": {"a": %q}}}`, c.json, c.typ)
		g, err := zarr.ParseGroup("/g", zarr.Docs{".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(doc)}, zarr.LayoutNewest)
		if err != nil {
			t.Errorf("%s %s: %v", c.typ, c.json, err)
			continue
		}
		if len(g.Attrs) != 1 || show(g.Attrs[0].Value) != show(c.want) || (len(g.Warnings) > 0) != c.warn {
			t.Errorf("%s %s: want %s, got %+v, warnings %q", c.typ, c.json, show(c.want), g.Attrs, g.Warnings)
		}
	}
}

func TestFillValues(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct {
		dtype, json string
		want        string // expected bytes, "none" for no fill value, or "error"
		layout      zarr.Layout
	}{
		{"<i4", "null", "none", 0},
		{"<i4", "-1", "\xff\xff\xff\xff", 0},
		{">i4", "1", "\x00\x00\x00\x01", 0},
		{"<i4", "1.5", "\x01\x00\x00\x00", 0},
		{"<i4", "0.0", "\x00\x00\x00\x00", 0},
		{"<i4", "true", "\x01\x00\x00\x00", 0},
		{"<i4", "[7]", "\x07\x00\x00\x00", 0},
		{"<i4", `"7"`, "\x07\x00\x00\x00", 0},
		{"<i4", "[1,2]", "error", 0},
		{"<i4", `"abc"`, "error", 0},
		{"<i4", "NaN", "error", 0},
		{"<i4", "{}", "error", 0},
		{"<i4", "2147483648", "error", 0},
		{"|u1", "300", "error", 0},
		{"|u1", "-1", "error", 0},
		{"<i8", "9223372036854775807", "\xff\xff\xff\xff\xff\xff\xff\x7f", 0},
		{"<i8", "-9223372036854775806", "\x02\x00\x00\x00\x00\x00\x00\x80", 0},
		{"<u8", "18446744073709551614", "\xfe\xff\xff\xff\xff\xff\xff\xff", 0},
		{"<u8", "18446744073709551616", "error", 0},
		{"<f4", `"NaN"`, "\x00\x00\xc0\x7f", 0},
		{"<f4", `NaN`, "\x00\x00\xc0\x7f", 0},
		{"<f4", `"-Infinity"`, "\x00\x00\x80\xff", 0},
		{"<f4", `1`, "\x00\x00\x80\x3f", 0},
		{"<f4", `1e39`, "error", 0},
		{"<f4", `"abc"`, "error", 0},
		{"<f8", `"1.5"`, "\x00\x00\x00\x00\x00\x00\xf8\x3f", 0},
		{"<f8", `"NaN"`, "\x00\x00\x00\x00\x00\x00\xf8\x7f", 0},
		{"<f4", `"0x7fc00000"`, "\x00\x00\xc0\x7f", 0},
		{">f8", `"0x3ff8000000000001"`, "\x3f\xf8\x00\x00\x00\x00\x00\x01", 0},
		{"<f2", `"0x7e00"`, "\x00\x7e", 0},
		{"<f4", `"0x7fc0"`, "error", 0},
		{"<i4", `"0x7fc00000"`, "error", 0},
		{"<f4", `"AADAfw=="`, "\x00\x00\xc0\x7f", 0},
		{"<i4", `"AQAAAA=="`, "\x01\x00\x00\x00", 0},
		{"<i4", `"AQA="`, "error", 0},
		{"<f4", `[1.5]`, "\x00\x00\xc0\x3f", 0},
		{"<f4", `[]`, "error", 0},
		{"|i1", `127.0`, "\x7f", 0},
		{"|i1", `128.0`, "error", 0},
		{"<i8", `1e30`, "error", 0},
		{"<m8[s]", `"NaT"`, "\x00\x00\x00\x00\x00\x00\x00\x80", 0},
		{"<M8[s]", `null`, "\x00\x00\x00\x00\x00\x00\x00\x80", 0}, // as in zarr-python
		{">m8[s]", `null`, "\x80\x00\x00\x00\x00\x00\x00\x00", 0},
		{"<i4", `null`, "none", 0},
		{"|S3", `null`, "\x00\x00\x00", 0},
		{"|S3", `null`, "none", zarr.LayoutNewest},
		{">c16", `["NaN",-0.0]`, "\x7f\xf8\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00", 0},
		{"<f2", `1`, "\x00\x3c", 0},
		{"|b1", "false", "\x00", 0},
		{"|b1", "1", "\x01", 0},
		{"|b1", "2", "error", 0},
		{"<c8", `[1,"NaN"]`, "\x00\x00\x80\x3f\x00\x00\xc0\x7f", 0},
		{"<c8", `[1,2,3]`, "error", 0},
		{"<M8[ns]", `"NaT"`, "\x00\x00\x00\x00\x00\x00\x00\x80", 0},
		{"<M8[ns]", `5`, "\x05\x00\x00\x00\x00\x00\x00\x00", 0},
		{"|S3", `""`, "\x00\x00\x00", 0},
		{"|S3", `0`, "\x00\x00\x00", 0},
		{"|S3", fmt.Sprintf("%q", b64([]byte("ab"))), "ab\x00", 0},
		{"|S4", `"YWI="`, "YWI=", zarr.LayoutNewest},
		{"|S3", `"YWI="`, "ab\x00", zarr.LayoutNewest},
		{"|S3", `"ab"`, "ab\x00", zarr.LayoutNewest},
		{"|S3", `"abcdefg"`, "error", 0},
		{">S1", `""`, "\x00", zarr.LayoutNewest},
		{">S1", `"x"`, "x", zarr.LayoutNewest},
		{">S1", `"\udcff"`, "\xff", zarr.LayoutNewest},
		{">S1", `"é"`, "error", zarr.LayoutNewest},
		{"<U2", `"é"`, "\xe9\x00\x00\x00\x00\x00\x00\x00", 0},
		{"<U2", `0`, "\x00\x00\x00\x00\x00\x00\x00\x00", 0},
		{"<U1", `"ab"`, "error", 0},
		{"|V2", `"AQI="`, "\x01\x02", 0},
		{"|V2", `0`, "\x00\x00", 0},
		{"|V2", `"AQ=="`, "error", 0},
		{"|O", `0`, "", 0},
		{"|O", `"x"`, "x", 0},
	} {
		doc := fmt.Sprintf(`{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": %q, "fill_value": %s}`, c.dtype, c.json)
		a, err := zarr.ParseArray("v", zarr.Docs{".zarray": []byte(doc)}, zarr.ParseHint{Layout: c.layout})
		switch {
		case c.want == "error":
			if ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), `"/v/.zarray"`) || !strings.Contains(err.Error(), "fill_value: ") {
				t.Errorf("%s %s: want an error, got %v", c.dtype, c.json, err)
			}
			continue
		case err != nil:
			t.Errorf("%s %s: %v", c.dtype, c.json, err)
			continue
		case c.want == "none":
			if a.HasFill || a.Fill != nil {
				t.Errorf("%s %s: want no fill value, got %q", c.dtype, c.json, a.Fill)
			}
		case !a.HasFill || string(a.Fill) != c.want:
			t.Errorf("%s %s: want %q, got %q", c.dtype, c.json, c.want, a.Fill)
		}
		checkRoundTrip(t, a)
	}
}

func TestArrayErrors(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]struct {
		kind ncerr.Kind
		text string
	}{
		`, "shape": null`:                                {ncerr.ErrMetadata, "shape: expected an array of lengths, found null"},
		`, "shape": [-1]`:                                {ncerr.ErrMetadata, "shape: dimension 0"},
		`, "shape": [1.5]`:                               {ncerr.ErrMetadata, "shape: dimension 0"},
		`, "shape": [9223372036854775808]`:               {ncerr.ErrMetadata, "shape: dimension 0"},
		`, "shape": [4, 4]`:                              {ncerr.ErrBadChunk, "chunks has 1 dimensions, but shape has 2"},
		`, "chunks": [0]`:                                {ncerr.ErrBadChunk, "chunks: dimension 0 is 0"},
		`, "shape": [9223372036854775807]`:               {ncerr.ErrLimit, "shape: the size exceeds"},
		`, "chunks": [9223372036854775807]`:              {ncerr.ErrLimit, "chunks: the size exceeds"},
		`, "shape": [` + strings.Repeat("1,", 64) + `1]`: {ncerr.ErrLimit, "shape has more than the limit of 64 dimensions"},
		`, "dtype": null`:                                {ncerr.ErrMetadata, "dtype: expected a string"},
		`, "dtype": "int32"`:                             {ncerr.ErrBadType, "dtype: "},
		`, "dtype": []`:                                  {ncerr.ErrMetadata, "dtype: the list of fields is empty"},
		`, "dtype": [["a"]]`:                             {ncerr.ErrMetadata, `field 0: expected [name, type], found ["a"]`},
		`, "dtype": [["a", "<i4"], ["a", "<i4"]]`:        {ncerr.ErrMetadata, `duplicate field "a"`},
		`, "dtype": [["a/b", "<i4"]]`:                    {ncerr.ErrMetadata, "field 0: expected"},
		`, "dtype": [["a", "|O"]]`:                       {ncerr.ErrMetadata, "no fixed size"},
		`, "dtype": [["a", "<i4", [0]]]`:                 {ncerr.ErrMetadata, `field "a": invalid shape [0]`},
		`, "dtype": [["a", "<i4", [99999, 99999]]]`:      {ncerr.ErrMetadata, "shape [99999, 99999]"},
		`, "dtype": [["a", [["b", "<i4", [9e9]]]]]`:      {ncerr.ErrMetadata, "shape [9e9]"},
		`, "dtype": [["a", "|V4000000"], ["b", "|V4000000"], ["c", "|V4000000"], ["d", "|V4000000"], ["e", "|V4000000"]]`: {ncerr.ErrLimit, "an element has more than"},
		`, "order": "X"`:                      {ncerr.ErrMetadata, "order: "},
		`, "dimension_separator": "-"`:        {ncerr.ErrMetadata, "dimension_separator: "},
		`, "compressor": "zlib"`:              {ncerr.ErrMetadata, "compressor: expected a codec"},
		`, "compressor": {}`:                  {ncerr.ErrMetadata, "compressor: codec {} has no id"},
		`, "filters": {}`:                     {ncerr.ErrMetadata, "filters: expected an array"},
		`, "filters": [1]`:                    {ncerr.ErrMetadata, "filters: expected a codec"},
		`, "zarr_format": 3`:                  {ncerr.ErrUnsupported, "zarr_format is 3"},
		`, "zarr_format": "x"`:                {ncerr.ErrMetadata, "zarr_format: expected 2"},
		`, "_nczarr_array": 1`:                {ncerr.ErrMetadata, "_nczarr_array: expected an object"},
		`, "_nczarr_array": {"dimrefs": [1]}`: {ncerr.ErrMetadata, "dimrefs: expected an array"},
		`, "x": `:                             {ncerr.ErrNotZarr, "not JSON: line 1"},

		`, "dtype": [["a", [["b", "<i4"], ["b", "<i4"]]]]`: {ncerr.ErrMetadata, `dtype: field 0: duplicate field "b" in a nested structure`},
	} {
		_, err := zarr.ParseArray("/g/v", zarr.Docs{".zarray": zarray(members)}, zarr.ParseHint{})
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) || !strings.Contains(err.Error(), `"/g/v/.zarray"`) {
			t.Errorf("%s: want %v with %q, got %v", members, want.kind, want.text, err)
		}
	}
	if _, err := zarr.ParseArray("v", zarr.Docs{}, zarr.ParseHint{}); ncerr.KindOf(err) != ncerr.ErrNoObject {
		t.Errorf("no documents: want ErrNoObject, got %v", err)
	}
	if _, err := zarr.ParseArray("v", zarr.Docs{"zarr.json": nil}, zarr.ParseHint{}); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("zarr.json: want ErrUnsupported, got %v", err)
	}
}

func TestCharRule(t *testing.T) {
	t.Parallel()
	char, one, wide := dtype.NCChar.Type(0), dtype.Type{Kind: dtype.Bytes, Size: 1}, dtype.Type{Kind: dtype.Unicode, Size: 4, Order: dtype.Little}
	for _, c := range []struct {
		text string
		hint zarr.ParseHint
		want dtype.Type
	}{
		{">S1", zarr.ParseHint{}, char},
		{"|S1", zarr.ParseHint{}, char},
		{"<U1", zarr.ParseHint{}, wide},
		{"<U1", zarr.ParseHint{NCProperties: "version=2,netcdf=4.9.0,nczarr=2.0.0"}, char},
		{">S1", zarr.ParseHint{Layout: zarr.LayoutNewest}, char},
		{"|S1", zarr.ParseHint{Layout: zarr.LayoutNewest}, one},
		{"<U1", zarr.ParseHint{Layout: zarr.LayoutNewest}, wide},
		{"<U1", zarr.ParseHint{Layout: zarr.LayoutUpper}, char},
		{"<U1", zarr.ParseHint{Layout: zarr.LayoutV1}, char},
		{"|S1", zarr.ParseHint{Layout: zarr.LayoutUpper}, one},
	} {
		doc := []byte(`{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "` + c.text + `", "fill_value": ""}`)
		a, err := zarr.ParseArray("v", zarr.Docs{".zarray": doc}, c.hint)
		if err != nil || a.DType != c.want {
			t.Errorf("%s %+v: want %v, got %+v, %v", c.text, c.hint, c.want, a, err)
		}
	}
}

func TestCodecSplit(t *testing.T) {
	t.Parallel()
	for chain, want := range map[string]string{
		"":                   `"compressor": null, "filters": null}`,
		"zlib":               `"compressor": {"id": "zlib"}, "filters": null}`,
		"shuffle zlib":       `"compressor": {"id": "zlib"}, "filters": [{"id": "shuffle"}]}`,
		"shuffle -":          `"compressor": null, "filters": [{"id": "shuffle"}]}`,
		"zlib fletcher32 -":  `"compressor": null, "filters": [{"id": "zlib"},{"id": "fletcher32"}]}`,
		"delta shuffle zstd": `"compressor": {"id": "zstd"}, "filters": [{"id": "delta"},{"id": "shuffle"}]}`,
		"own":                `"compressor": {"id": "own"}, "filters": null}`,
	} {
		a := &zarr.Array{Shape: []int64{2}, Chunks: []int64{2}, DType: dtype.NCInt.Type(dtype.Little)}
		ids, noCompressor := strings.CutSuffix(chain, " -")
		a.NoCompressor = noCompressor
		for id := range strings.FieldsSeq(ids) {
			a.Codecs = append(a.Codecs, zarr.CodecSpec{ID: id})
		}
		docs, err := a.Docs(zarr.WriteOptions{})
		if err != nil || !strings.HasSuffix(string(docs[".zarray"]), want) {
			t.Errorf("%q: want %s, got %s, %v", chain, want, docs[".zarray"], err)
			continue
		}
		b, err := zarr.ParseArray("v", docs, zarr.ParseHint{})
		if err != nil {
			t.Errorf("%q: parse: %v", chain, err)
			continue
		}
		got := ""
		for _, c := range b.Codecs {
			got += " " + c.ID
		}
		if b.NoCompressor {
			got += " -"
		}
		if got := strings.TrimSpace(got); got != chain {
			t.Errorf("want %q, got %q", chain, got)
		}
	}
}

// TestCharText checks that a char attribute is written as a JSON value only if that value
// is parsed as the same attribute.
func TestCharText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, newest, pure, upper string }{
		{`{"a": [1,2]}`, `{"a": [1,2]}`, `{"a": [1,2]}`, `{"a": [1,2]}`},
		{`{ "a":1 }`, `{ "a":1 }`, `{ "a":1 }`, `{ "a":1 }`},
		{`[1,2]`, `[1,2]`, `"[1,2]"`, `"[1,2]"`},
		{`[[1],[2]]`, `[[1],[2]]`, `[[1],[2]]`, `"[[1],[2]]"`},
		{`[0.,1.]`, `"[0.,1.]"`, `"[0.,1.]"`, `"[0.,1.]"`},
		{`{"a":1} `, `"{\"a\":1} "`, `"{\"a\":1} "`, `"{\"a\":1} "`},
		{`42`, `"42"`, `"42"`, `"42"`},
		{`true`, `"true"`, `"true"`, `"true"`},
		{`null`, `"null"`, `"null"`, `"null"`},
		{`"q"`, `"\"q\""`, `"\"q\""`, `"\"q\""`},
		{` lead`, `" lead"`, `" lead"`, `" lead"`},
		{"nul\x00", `"nul\u0000"`, `"nul\u0000"`, `"nul\u0000"`},
		{"23\xb0C", `"23\udcb0C"`, `"23\udcb0C"`, `"23\udcb0C"`},
		{"", `""`, `""`, `""`},
		{"{\"a\": \"\xff\"}", `"{\"a\": \"\udcff\"}"`, `"{\"a\": \"\udcff\"}"`, `"{\"a\": \"\udcff\"}"`},
	} {
		for layout, want := range map[zarr.Layout]string{zarr.LayoutNewest: c.newest, zarr.LayoutPure: c.pure, zarr.LayoutUpper: c.upper} {
			g := zarr.Group{Attrs: []zarr.Attr{{Name: "a", Type: dtype.NCChar, Value: c.text}}}
			docs, err := g.Docs(zarr.WriteOptions{Layout: layout})
			if err != nil || !strings.HasPrefix(string(docs[".zattrs"]), `{"a": `+want) {
				t.Errorf("%q in %v: want %s, got %s, %v", c.text, layout, want, docs[".zattrs"], err)
				continue
			}
			back, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
			if err != nil || len(back.Attrs) != 1 || back.Attrs[0].Value != c.text {
				t.Errorf("%q in %v: parsed as %+v, %v", c.text, layout, back, err)
			}
		}
	}
}

// onlyJSON lists JSON values that netCDF cannot hold or cannot distinguish from other values.
var onlyJSON = []string{
	"null", "true", "false", "NaN", "Infinity", "-Infinity", "1", "[1]", "[]", "[true, false]", "[NaN]", "[NaN,1.5]", `"NaN"`, `["NaN"]`, `["NaN", "Infinity"]`,
	`{"a": 1}`, `"{\"a\": 1}"`, `{"a": NaN, "b": [Infinity]}`, "[1, 2]", `"[1, 2]"`, "[[1, 2], [3]]", `[null, 1]`, `[1, "a"]`, `"null"`, `"true"`, `"1"`,
	"18446744073709551616", "1e400", "1.50", "[1, 2.5]", `["one"]`, `[""]`, `""`, "-0", "[{}]", "{}", `"a\u0000"`,
}

// TestAttributesKeepTheirJSON checks that pure Zarr keeps the JSON of a parsed attribute
// unless its value was changed.
func TestAttributesKeepTheirJSON(t *testing.T) {
	t.Parallel()
	for _, want := range onlyJSON {
		g, err := zarr.ParseGroup("/", zarr.Docs{".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(`{"a": ` + want + `}`)}, zarr.LayoutNewest)
		if err != nil || len(g.Attrs) != 1 {
			t.Errorf("%s: want one attribute, got %+v, %v", want, g, err)
			continue
		}
		docs, err := (&zarr.Group{Attrs: g.Attrs}).Docs(zarr.WriteOptions{Layout: zarr.LayoutPure})
		if err != nil || string(docs[".zattrs"]) != `{"a": `+want+`}` {
			t.Errorf("%s: got %s, %v", want, docs[".zattrs"], err)
		}
		a := g.Attrs[0]
		a.Type, a.Value = dtype.NCInt, []int32{7}
		if docs, err = (&zarr.Group{Attrs: []zarr.Attr{a}}).Docs(zarr.WriteOptions{Layout: zarr.LayoutPure}); err != nil || string(docs[".zattrs"]) != `{"a": 7}` {
			t.Errorf("%s, changed to 7: got %s, %v", want, docs[".zattrs"], err)
		}
		for layout := range zarr.LayoutV1 + 1 { // the value is the same in every layout
			docs, err := (&zarr.Group{Attrs: g.Attrs, Listed: true}).Docs(zarr.WriteOptions{Layout: layout, IsRoot: true})
			if err != nil {
				t.Errorf("%s in %v: %v", want, layout, err)
				continue
			}
			back, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
			if err != nil || len(back.Attrs) != 1 || back.Attrs[0].Type != g.Attrs[0].Type || fmt.Sprint(back.Attrs[0].Value) != fmt.Sprint(g.Attrs[0].Value) {
				t.Errorf("%s in %v: want %+v, got %+v, %v", want, layout, g.Attrs, back.Attrs, err)
			}
		}
	}
	bad := zarr.Attr{Name: "a", Type: dtype.NCChar, Value: "x", JSON: `"x", "_other": 1`}
	if docs, err := (&zarr.Group{Attrs: []zarr.Attr{bad}}).Docs(zarr.WriteOptions{Layout: zarr.LayoutPure}); err != nil || string(docs[".zattrs"]) != `{"a": "x"}` {
		t.Errorf("invalid JSON: want the value x, got %s, %v", docs[".zattrs"], err)
	}
}

// TestNoEscapes checks that strings are written in UTF-8 without \u escapes, which
// netcdf-c does not decode.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	g, err := zarr.ParseGroup("/", zarr.Docs{".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(`{"a": "gr\u00fcn", "b": ["\u00fc", "x"], "c": ["\u00fc"]}`)}, zarr.LayoutNewest)
	if err != nil {
		t.Fatal(err)
	}
	for layout, want := range map[zarr.Layout]string{zarr.LayoutPure: `{"a": "grün", "b": ["ü","x"], "c": ["ü"]}`, zarr.LayoutNewest: `{"a": "grün", "b": ["ü","x"], "c": "ü", `} {
		docs, err := (&zarr.Group{Attrs: g.Attrs, Listed: true}).Docs(zarr.WriteOptions{Layout: layout})
		if err != nil || !strings.HasPrefix(string(docs[".zattrs"]), want) {
			t.Errorf("want %s, got %s, %v", want, docs[".zattrs"], err)
		}
	}
}

// TestTextThatLooksLikeAnObject checks that a char attribute that was read from a string
// is written as a string. NCZarr's types do not distinguish strings from JSON.
func TestTextThatLooksLikeAnObject(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"{\"a\": 1}"`, `{"a": 1}`} {
		g, err := zarr.ParseGroup("/", zarr.Docs{".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(`{"a": ` + value + `}`)}, zarr.LayoutNewest)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := (&zarr.Group{Attrs: g.Attrs, Listed: true}).Docs(zarr.WriteOptions{Layout: zarr.LayoutNewest})
		if err != nil || !strings.HasPrefix(string(docs[".zattrs"]), `{"a": `+value+",") {
			t.Errorf("want %s, got %s, %v", value, docs[".zattrs"], err)
		}
	}
}

func TestConsolidated(t *testing.T) {
	t.Parallel()
	nodes := map[string]zarr.Docs{
		"":     {".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(`{"a": NaN}`)},
		"g":    {".zgroup": []byte(`{"zarr_format": 2}`)},
		"g/a2": {".zarray": zarray(""), ".zattrs": []byte(`{}`)},
	}
	b, err := zarr.WriteConsolidated(nodes)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata": {".zgroup": {"zarr_format": 2}, ".zattrs": {"a": NaN}, "g/.zgroup": {"zarr_format": 2}, "g/a2/.zarray": ` + string(zarray("")) + `, "g/a2/.zattrs": {}}, "zarr_consolidated_format": 1}`
	if string(b) != want {
		t.Errorf("want %s\ngot  %s", want, b)
	}
	back, err := zarr.ParseConsolidated(b)
	if err != nil || !reflect.DeepEqual(back, nodes) {
		t.Errorf("want %s, got %s, %v", nodes, back, err)
	}
	for doc, kind := range map[string]ncerr.Kind{
		`{"metadata": {".zgroup": {}}}`:                                ncerr.ErrConsolidated,
		`{"metadata": {}, "zarr_consolidated_format": 1}`:              ncerr.ErrConsolidated,
		`{"metadata": [], "zarr_consolidated_format": 1}`:              ncerr.ErrConsolidated,
		`{"zarr_consolidated_format": 1}`:                              ncerr.ErrConsolidated,
		`{"metadata": {".zgroup": {}}, "zarr_consolidated_format": 2}`: ncerr.ErrConsolidated,
		`{"metadata": {".zgroup": {}`:                                  ncerr.ErrNotZarr,
		``:                                                             ncerr.ErrNotZarr,
		`[]`:                                                           ncerr.ErrNotZarr,
	} {
		if _, err := zarr.ParseConsolidated([]byte(doc)); ncerr.KindOf(err) != kind || !strings.Contains(err.Error(), "/.zmetadata") {
			t.Errorf("%s: want %v, got %v", doc, kind, err)
		}
	}
}

// TestNCPropertiesOfAnyType checks that _NCProperties is stored in Group.NCProperties, and
// not in Group.Attrs, for every string type.
func TestNCPropertiesOfAnyType(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{">S1", "|S1", "<U1", "|J0"} {
		docs := zarr.Docs{".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": fmt.Appendf(nil,
			`{"_NCProperties": "version=2", "_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}, "_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_attr": {"types": {"_NCProperties": %q}}}`, typ)}
		g, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
		if err != nil {
			t.Fatal(err)
		}
		if g.NCProperties != "version=2" || len(g.Attrs) > 0 {
			t.Errorf("type %s: want NCProperties to be set, got %q and %v", typ, g.NCProperties, g.Attrs)
		}
	}
}
