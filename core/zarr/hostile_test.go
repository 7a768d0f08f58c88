package zarr_test

import (
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestCharSpelling checks the dtype of char: "|S1" in pure Zarr, ">S1" in NCZarr since
// 4.9.1, and "<U1" in earlier NCZarr.
func TestCharSpelling(t *testing.T) {
	t.Parallel()
	a := zarr.Array{Shape: []int64{5}, Chunks: []int64{5}, DType: dtype.NCChar.Type(dtype.OrderNone)}
	for layout, want := range map[zarr.Layout]string{
		zarr.LayoutPure: "|S1", zarr.LayoutNewest: ">S1", zarr.LayoutLower: ">S1", zarr.LayoutUpper: "<U1", zarr.LayoutV1: "<U1",
	} {
		docs, err := a.Docs(zarr.WriteOptions{Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(docs[".zarray"]); !strings.Contains(got, `"dtype": "`+want+`"`) {
			t.Errorf("%v: want %s, got %s", layout, want, got)
		}
		back, err := zarr.ParseArray("v", docs, zarr.ParseHint{Layout: layout})
		if err != nil || back.DType.Kind != dtype.Char {
			t.Errorf("%v: want char, got %v, %v", layout, back, err)
		}
	}
}

// TestLongStringAttribute checks that a string attribute longer than the maximum element
// size reads back as a string.
func TestLongStringAttribute(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("x", dtype.MaxSize+1)
	g := zarr.Group{Attrs: []zarr.Attr{{Name: "a", Type: dtype.NCString, Value: []string{want}}}}
	for _, layout := range []zarr.Layout{zarr.LayoutPure, zarr.LayoutNewest, zarr.LayoutLower, zarr.LayoutUpper, zarr.LayoutV1} {
		docs, err := g.Docs(zarr.WriteOptions{Layout: layout, IsRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		back, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
		if err != nil || len(back.Attrs) != 1 || back.Attrs[0].Type != dtype.NCString || len(back.Warnings) > 0 {
			t.Fatalf("%v: want a string, got %d attributes, warnings %.200q, %v", layout, len(back.Attrs), back.Warnings, err)
		}
		if got := back.Attrs[0].Value.([]string); len(got) != 1 || got[0] != want {
			t.Errorf("%v: the text has changed", layout)
		}
	}
}

// TestPlainFillOfPureText checks the fill value of byte strings in pure Zarr. The
// specification requires base64, but netcdf-c writes the plain string. The attribute
// _FillValue, which netcdf-c also writes, shows which form applies.
func TestPlainFillOfPureText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fill, attrs, want string }{
		{`"abcd"`, `{"_FillValue": "abcd"}`, "abcd"},
		{`"abcd"`, `{"_FillValue": ["abcd"]}`, "abcd"},
		{`"YWI="`, `{"_FillValue": "ab"}`, "ab"},
		{`"abcd"`, `{}`, "i\xb7\x1d"},
		{`"abcd"`, `{"_FillValue": 0}`, "i\xb7\x1d"},
	} {
		a, err := zarr.ParseArray("v", zarr.Docs{
			".zarray": []byte(`{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|S8", "fill_value": ` + c.fill + `}`),
			".zattrs": []byte(c.attrs),
		}, zarr.ParseHint{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(string(a.Fill), "\x00"); got != c.want {
			t.Errorf("fill_value %s with attributes %s: want %q, got %q", c.fill, c.attrs, c.want, got)
		}
	}
}

// TestMessagesHaveOneLine checks that a document cannot add lines to messages.
func TestMessagesHaveOneLine(t *testing.T) {
	t.Parallel()
	_, err := zarr.ParseArray("v", zarr.Docs{".zarray": []byte("{\"shape\": {\n\"nczctl: all is well\": 1}}")}, zarr.ParseHint{})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "all is well") {
		t.Errorf("want an error of one line, got %v", err)
	}
	array := `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|i1", "compressor": null, "fill_value": 0, "order": "C", "filters": null}`
	a, err := zarr.ParseArray("v", zarr.Docs{".zarray": []byte(array), ".zattrs": []byte("{\"_ARRAY_DIMENSIONS\": [1,\n\r2]}")}, zarr.ParseHint{})
	if err != nil || len(a.Warnings) != 1 || strings.ContainsAny(a.Warnings[0], "\r\n") {
		t.Errorf("want one warning of one line, got %+v, %v", a, err)
	}
}
