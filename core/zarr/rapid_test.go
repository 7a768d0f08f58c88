package zarr_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

func drawAttrs(t *rapid.T) []zarr.Attr {
	var attrs []zarr.Attr
	for i := range rapid.IntRange(0, 4).Draw(t, "attributes") {
		a := zarr.Attr{Name: fmt.Sprintf("a%d é\"\n", i), Type: dtype.NC(rapid.IntRange(1, 12).Draw(t, "type"))}
		switch n := rapid.IntRange(0, 3).Draw(t, "values"); a.Type {
		case dtype.NCChar:
			a.Value = string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		case dtype.NCString:
			list := make([]string, n)
			for k := range list {
				list[k] = rapid.String().Draw(t, "string")
			}
			a.Value = list
		default:
			a.Value = dtype.MakeSlice(a.Type, n)
			b, _, _ := dtype.View(a.Value)
			copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "bytes"))
			zeroNaNs(a.Value)
		}
		attrs = append(attrs, a)
	}
	return attrs
}

// zeroNaNs replaces every NaN with 0, because JSON has only one spelling of NaN.
func zeroNaNs(v any) {
	switch s := v.(type) {
	case []float32:
		for i := range s {
			if s[i] != s[i] {
				s[i] = 0
			}
		}
	case []float64:
		for i := range s {
			if s[i] != s[i] {
				s[i] = 0
			}
		}
	}
}

var ncLayouts = []zarr.Layout{zarr.LayoutNewest, zarr.LayoutLower, zarr.LayoutUpper, zarr.LayoutV1}

func drawArray(t *rapid.T) *zarr.Array {
	a := &zarr.Array{Shape: []int64{}, Chunks: []int64{}, Keys: chunk.Keys{Separator: '.'}, Storage: "chunked", Attrs: drawAttrs(t)}
	a.DimRefs = []string{}
	for i := range rapid.IntRange(0, 4).Draw(t, "rank") {
		a.Shape = append(a.Shape, rapid.Int64Range(0, 1000).Draw(t, "length"))
		a.Chunks = append(a.Chunks, rapid.Int64Range(1, 1000).Draw(t, "chunk"))
		a.DimRefs = append(a.DimRefs, fmt.Sprintf("/g/d%d", i))
		a.DimNames = append(a.DimNames, fmt.Sprintf("d%d", i))
	}
	order := rapid.SampledFrom([]dtype.Order{dtype.Little, dtype.Big}).Draw(t, "order")
	nc := dtype.NC(rapid.IntRange(1, 11).Draw(t, "nc"))
	a.DType = nc.Type(order)
	if rapid.Bool().Draw(t, "string") {
		a.DType = dtype.Type{Kind: dtype.Bytes, Size: rapid.IntRange(2, 9).Draw(t, "size")}
	}
	if a.HasFill = rapid.Bool().Draw(t, "fill"); a.HasFill {
		value := dtype.DefaultFill(a.DType.NC())
		if b, _, ok := dtype.View(value); ok {
			copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "fill bytes"))
			zeroNaNs(value)
		}
		var err error
		if a.Fill, err = dtype.FillBytes(a.DType, value); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.Shape) > 1 && rapid.Bool().Draw(t, "F") {
		for i := range a.Shape {
			a.Transpose = append(a.Transpose, len(a.Shape)-1-i)
		}
	}
	if rapid.Bool().Draw(t, "slash") {
		a.Keys.Separator = '/'
	}
	for _, id := range rapid.SliceOfN(rapid.SampledFrom([]string{"delta", "shuffle", "zlib", "own"}), 0, 3).Draw(t, "codecs") {
		a.Codecs = append(a.Codecs, zarr.CodecSpec{ID: id, Params: json.RawMessage(fmt.Sprintf(`{"id": %q}`, id))})
	}
	a.NoCompressor = len(a.Codecs) > 0 && rapid.Bool().Draw(t, "no compressor")
	return a
}

// TestArrayRoundTrip checks that an array survives a round trip in the NCZarr layouts.
func TestArrayRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := drawArray(t)
		want.Layout = rapid.SampledFrom(ncLayouts).Draw(t, "layout")
		if len(want.Shape) == 0 {
			want.Scalar, want.Shape, want.Chunks = true, []int64{1}, []int64{1}
			if want.Layout == zarr.LayoutUpper || want.Layout == zarr.LayoutV1 {
				want.Storage = "scalar"
			}
			want.DimNames = []string{}
		}
		docs, err := want.Docs(zarr.WriteOptions{Layout: want.Layout, IsRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		for name, doc := range docs {
			if !json.Valid(doc) || !utf8.Valid(doc) {
				t.Fatalf("%s is not strict JSON: %s", name, doc)
			}
		}
		got, err := zarr.ParseArray("v", docs, zarr.ParseHint{Layout: want.Layout})
		if err != nil || len(got.Warnings) > 0 {
			t.Fatalf("unexpected error %v or warnings %q for %s", err, got.Warnings, docs)
		}
		dropJSON(got.Attrs)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want\n%+v, got\n%+v from %s", want, got, docs)
		}
	})
}

// TestPureRoundTrip checks that an array survives a round trip in pure Zarr, except for
// the types of attributes and the members that only NCZarr has.
func TestPureRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := drawArray(t)
		docs, err := want.Docs(zarr.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := zarr.ParseArray("v", docs, zarr.ParseHint{})
		if err != nil || len(got.Warnings) > 0 {
			t.Fatalf("unexpected error %v or warnings %q for %s", err, got.Warnings, docs)
		}
		want.Scalar = len(want.Shape) == 0
		if want.Scalar {
			want.DimNames = []string{}
		}
		want.DimRefs, want.Storage = nil, ""
		if kind := want.DType.Kind; !want.HasFill && (kind == dtype.Bytes || kind == dtype.Char) {
			want.Fill, want.HasFill = make([]byte, want.DType.Size), true // null means the empty string
		}
		for i, a := range want.Attrs {
			if text, ok := a.Value.(string); ok && got.Attrs[i].Value != text {
				t.Fatalf("char %q became %v", text, got.Attrs[i].Value)
			}
		}
		want.Attrs, got.Attrs = nil, nil
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want\n%+v, got\n%+v from %s", want, got, docs)
		}
	})
}

// dropJSON clears the JSON of attributes, which only parsed attributes have.
func dropJSON(attrs []zarr.Attr) {
	for i := range attrs {
		attrs[i].JSON = ""
	}
}

func TestGroupRoundTrip(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		want := &zarr.Group{Layout: rapid.SampledFrom(ncLayouts).Draw(t, "layout"), Listed: true, Attrs: drawAttrs(t), NCProperties: zarr.LayoutNewest.NCProperties("0.1.0")}
		want.Superblock = "2.0.0"
		if want.Layout == zarr.LayoutV1 {
			want.Superblock = "1.0.0"
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "n") {
			want.Dims = append(want.Dims, zarr.Dim{
				Name: fmt.Sprintf("d %d", i), Len: rapid.Int64Min(0).Draw(t, "len"),
				Unlimited: want.Layout == zarr.LayoutNewest && rapid.Bool().Draw(t, "unlimited"),
			})
			want.Arrays = append(want.Arrays, fmt.Sprintf("v\"%d", i))
			want.Groups = append(want.Groups, fmt.Sprintf("gé%d", i))
		}
		docs, err := want.Docs(zarr.WriteOptions{Layout: want.Layout, IsRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Attrs) == 0 {
			got.Attrs = nil
		}
		dropJSON(got.Attrs)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want\n%+v, got\n%+v from %s", want, got, docs)
		}
	})
}
