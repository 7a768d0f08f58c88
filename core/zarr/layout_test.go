package zarr_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// The golden documents, as written by releases of netcdf-c. Each is parsed, checked and
// rewritten byte for byte.
var golden = []struct {
	name   string
	layout zarr.Layout
	root   bool
	docs   map[string]string
}{
	{"newest root", zarr.LayoutNewest, true, map[string]string{
		".zgroup": `{"zarr_format": 2}`,
		".zattrs": `{"title": "T", "version": 3, "_NCProperties": "version=2,netcdf=4.10.2-development,nczarr=2.0.0", "_nczarr_group": {"dimensions": {"t": {"size": 2, "unlimited": 1}, "y": 3, "x": 4, "n": 5}, "arrays": ["s","ds","a2","c","st","u","big"], "groups": ["g"]}, "_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_attr": {"types": {"title": ">S1", "version": "<i4", "_NCProperties": ">S1", "_nczarr_group": "|J0", "_nczarr_superblock": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"newest group", zarr.LayoutNewest, false, map[string]string{
		".zgroup": `{"zarr_format": 2}`,
		".zattrs": `{"_nczarr_group": {"dimensions": {"z": 2}, "arrays": ["v"], "groups": ["sub"]}, "_nczarr_attr": {"types": {"_nczarr_group": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"newest array", zarr.LayoutNewest, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [3,4], "dtype": "<f4", "chunks": [2,2], "fill_value": -999.5, "order": "C", "compressor": null, "filters": null}`,
		".zattrs": `{"_FillValue": -999.5, "valid_range": [-1.25,1e+30], "strs": ["one","two"], "_ARRAY_DIMENSIONS": ["y","x"], "_nczarr_array": {"dimension_references": ["/y","/x"], "storage": "chunked"}, "_nczarr_attr": {"types": {"_FillValue": "<f4", "valid_range": "<f4", "strs": "|S128", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"newest scalar", zarr.LayoutNewest, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [1], "dtype": "<i4", "chunks": [1], "fill_value": -2147483647, "order": "C", "compressor": null, "filters": null}`,
		".zattrs": `{"units": "m", "_ARRAY_DIMENSIONS": ["_scalar_"], "_nczarr_array": {"dimension_references": [], "scalar": 1, "storage": "chunked"}, "_nczarr_attr": {"types": {"units": ">S1", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"newest in a group, codecs, char", zarr.LayoutNewest, false, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [5], "dtype": ">S1", "chunks": [5], "fill_value": "", "order": "C", "compressor": {"id": "zlib", "level": 9}, "filters": [{"id": "shuffle", "elementsize": 0}], "dimension_separator": "/"}`,
		".zattrs": `{"note": "in group", "_ARRAY_DIMENSIONS": ["z"], "_nczarr_array": {"dimension_references": ["/g/z"], "storage": "chunked"}, "_nczarr_attr": {"types": {"note": ">S1", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"newest string", zarr.LayoutNewest, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [4], "dtype": "|S8", "chunks": [4], "fill_value": "", "order": "C", "compressor": null, "filters": null}`,
		".zattrs": `{"_nczarr_maxstrlen": 8, "_ARRAY_DIMENSIONS": ["x"], "_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked"}, "_nczarr_attr": {"types": {"_nczarr_maxstrlen": "<i4", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}`,
	}},
	{"pure root", zarr.LayoutPure, true, map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": `{"title": "T", "_NCProperties": "version=2,netcdf=4.10.2-development,nczarr=2.0.0"}`}},
	{"pure group", zarr.LayoutPure, false, map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": `{}`}},
	{"pure scalar", zarr.LayoutPure, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [], "dtype": "<f8", "chunks": [], "fill_value": "NaN", "order": "C", "compressor": null, "filters": null}`,
		".zattrs": `{"units": "m", "_ARRAY_DIMENSIONS": []}`,
	}},
	{"lower root", zarr.LayoutLower, true, map[string]string{
		".zgroup": `{"zarr_format": 2, "_nczarr_superblock": {"version": "2.0.0"}, "_nczarr_group": {"dims": {"d0": 2, "d1": 4}, "vars": ["v"], "groups": []}}`,
		".zattrs": `{}`,
	}},
	{"lower array", zarr.LayoutLower, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [2,4], "dtype": "<i4", "chunks": [2,4], "fill_value": null, "order": "C", "compressor": null, "filters": null, "_nczarr_array": {"dimrefs": ["/d0","/d1"], "storage": "chunked"}}`,
		".zattrs": `{"_FillValue": -1, "_ARRAY_DIMENSIONS": ["d0","d1"], "_nczarr_attr": {"types": {"_FillValue": "<i4"}}}`,
	}},
	{"upper root", zarr.LayoutUpper, true, map[string]string{
		".zgroup": `{"zarr_format": 2, "_NCZARR_SUPERBLOCK": {"version": "2.0.0"}, "_NCZARR_GROUP": {"dims": {"t": 2, "y": 3}, "vars": ["s","ds"], "groups": ["g"]}}`,
		".zattrs": `{"title": "T", "version": 3, "_NCProperties": "version=2,netcdf=4.9.0,nczarr=2.0.0", "_NCZARR_ATTR": {"types": {"title": "<U1", "version": "<i4", "_NCProperties": "<U1"}}}`,
	}},
	{"upper group", zarr.LayoutUpper, false, map[string]string{
		".zgroup": `{"zarr_format": 2, "_NCZARR_GROUP": {"dims": {"z": 2}, "vars": ["v"], "groups": ["sub"]}}`,
	}},
	{"upper scalar", zarr.LayoutUpper, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [1], "dtype": "<i4", "chunks": [1], "fill_value": 0, "order": "C", "compressor": null, "filters": null, "_NCZARR_ARRAY": {"dimrefs": [], "storage": "scalar"}}`,
		".zattrs": `{"units": "m", "_ARRAY_DIMENSIONS": [], "_NCZARR_ATTR": {"types": {"units": "<U1"}}}`,
	}},
	{"upper char without attributes", zarr.LayoutUpper, true, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [2,4], "dtype": "<U1", "chunks": [1,4], "fill_value": "", "order": "C", "compressor": null, "filters": null, "_NCZARR_ARRAY": {"dimrefs": ["/t","/x"], "storage": "chunked"}}`,
		".zattrs": `{"_ARRAY_DIMENSIONS": ["t","x"], "_NCZARR_ATTR": {}}`,
	}},
	{"upper in a group", zarr.LayoutUpper, false, map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [2], "dtype": "|u1", "chunks": [1], "fill_value": 255, "order": "C", "compressor": null, "filters": null, "_NCZARR_ARRAY": {"dimrefs": ["/g/z"], "storage": "chunked"}}`,
	}},
}

func docsOf(m map[string]string) zarr.Docs {
	d := zarr.Docs{}
	for k, v := range m {
		d[k] = []byte(v)
	}
	return d
}

func TestGoldenDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range golden {
		in := docsOf(c.docs)
		opts := zarr.WriteOptions{Layout: c.layout, IsRoot: c.root}
		var out zarr.Docs
		if _, ok := in[".zarray"]; ok {
			a, err := zarr.ParseArray("v", in, zarr.ParseHint{Layout: c.layout})
			if err != nil || a.Layout != c.layout || len(a.Warnings) > 0 {
				t.Errorf("%s: want layout %v and no warnings, got %+v, %v", c.name, c.layout, a, err)
				continue
			}
			if strings.Contains(c.name, "scalar") != a.Scalar {
				t.Errorf("%s: got scalar %v", c.name, a.Scalar)
			}
			if out, err = a.Docs(opts); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		} else {
			g, err := zarr.ParseGroup("g", in, zarr.LayoutNewest)
			if err != nil || g.Layout != c.layout || len(g.Warnings) > 0 || g.Listed != (c.layout != zarr.LayoutPure) {
				t.Errorf("%s: want layout %v and no warnings, got %+v, %v", c.name, c.layout, g, err)
				continue
			}
			if out, err = g.Docs(opts); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		sameDocs(t, c.name, strings.NewReplacer(), out, in)
	}
}

// TestSpellings checks that every name of a member is accepted in every place that any
// release has used.
func TestSpellings(t *testing.T) {
	t.Parallel()
	zg, za := `{"zarr_format": 2}`, string(zarray(""))
	group := `{"%s": {"x": 4, "t": {"size": 2, "unlimited": 1}}, "%s": ["v"], "groups": ["g"]}`
	array := `{"%s": ["/x"], "storage": "chunked"}`
	with := func(doc, member, block string) string {
		return strings.TrimSuffix(doc, "}") + fmt.Sprintf(`, %q: %s}`, member, block)
	}
	quoted := func(s string) string { return fmt.Sprintf("%q", s) }
	for _, c := range []struct {
		layout       zarr.Layout
		group, array map[string]string // %s is replaced with the block
	}{
		{zarr.LayoutNewest, map[string]string{".zgroup": zg, ".zattrs": `{"_nczarr_group": %s}`}, map[string]string{".zarray": za, ".zattrs": `{"_nczarr_array": %s}`}},
		{zarr.LayoutLower, map[string]string{".zgroup": with(zg, "_nczarr_group", "%s")}, map[string]string{".zarray": with(za, "_nczarr_array", "%s")}},
		{zarr.LayoutUpper, map[string]string{".zgroup": with(zg, "_NCZARR_GROUP", "%s")}, map[string]string{".zarray": with(za, "_NCZARR_ARRAY", "%s")}},
		{zarr.LayoutUpper, map[string]string{".zattrs": `{"_NCZARR_GROUP": %s}`}, map[string]string{".zarray": za, ".zattrs": `{"_NCZARR_ARRAY": %s}`}},
		{zarr.LayoutV1, map[string]string{".nczgroup": "%s"}, map[string]string{".zarray": za, ".nczarray": "%s"}},
		{zarr.LayoutV1, map[string]string{".nczgroup": "%s"}, map[string]string{".zarray": za, ".nczvar": "%s"}},
		{zarr.LayoutV1, map[string]string{".ncgroup": "%s"}, map[string]string{".zarray": za, ".ncvar": "%s"}},
	} {
		fill := func(m map[string]string, block string) zarr.Docs {
			d := zarr.Docs{}
			for k, v := range m {
				d[k] = []byte(strings.Replace(v, "%s", block, 1))
			}
			return d
		}
		for _, dims := range []string{"dims", "dimensions"} {
			for _, vars := range []string{"vars", "arrays"} {
				block := fmt.Sprintf(group, dims, vars)
				forms := []string{block}
				if c.layout != zarr.LayoutV1 {
					forms = append(forms, quoted(block))
				}
				for _, form := range forms {
					g, err := zarr.ParseGroup("/", fill(c.group, form), zarr.LayoutNewest)
					want := []zarr.Dim{{Name: "x", Len: 4}, {Name: "t", Len: 2, Unlimited: true}}
					if err != nil || g.Layout != c.layout || !reflect.DeepEqual(g.Dims, want) || !slices.Equal(g.Arrays, []string{"v"}) || !slices.Equal(g.Groups, []string{"g"}) {
						t.Errorf("%v %s %s: unexpected group %+v, %v", c.layout, dims, vars, g, err)
					}
				}
			}
		}
		for _, refs := range []string{"dimrefs", "dimension_references"} {
			a, err := zarr.ParseArray("v", fill(c.array, fmt.Sprintf(array, refs)), zarr.ParseHint{})
			if err != nil || a.Layout != c.layout || !slices.Equal(a.DimRefs, []string{"/x"}) || a.Storage != "chunked" {
				t.Errorf("%v %s: unexpected array %+v, %v", c.layout, refs, a, err)
			}
		}
	}
	for _, doc := range []string{".nczattrs", ".nczattr"} {
		g, err := zarr.ParseGroup("/", zarr.Docs{".zattr": []byte(`{"a": 1}`), doc: []byte(`{"types": {"a": "3"}}`)}, zarr.LayoutNewest)
		if err != nil || len(g.Attrs) != 1 || g.Attrs[0].Type != dtype.NCShort {
			t.Errorf("%s: want one attribute of type short, got %+v, %v", doc, g, err)
		}
	}
}

func TestDetectLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		docs map[string]string
		want zarr.Layout
		kind ncerr.Kind
	}{
		{map[string]string{".zgroup": `{"zarr_format": 2}`}, zarr.LayoutPure, 0},
		{map[string]string{".zarray": `{}`}, zarr.LayoutPure, 0},
		{map[string]string{".zattrs": `{"_nczarr_superblock": {"version": "2.0.0"}}`}, zarr.LayoutNewest, 0},
		{map[string]string{".zgroup": `{"_nczarr_superblock": {"version": "2.0.0"}}`}, zarr.LayoutLower, 0},
		{map[string]string{".zgroup": `{"_NCZARR_SUPERBLOCK": {"version": "2.0.0"}}`}, zarr.LayoutUpper, 0},
		{map[string]string{".nczarr": `{"nczarr_version": "1.0.0"}`}, zarr.LayoutV1, 0},
		{map[string]string{".NCZarr": `{"nczarr_version": "1.0.0"}`}, zarr.LayoutV1, 0},
		{map[string]string{".zattrs": `{"_nczarr_superblock": {"version": "3.0.0"}}`}, 0, ncerr.ErrUnsupported},
		{map[string]string{".zattrs": `{"_nczarr_superblock": {}}`}, 0, ncerr.ErrMetadata},
		{map[string]string{".zgroup": `x`}, 0, ncerr.ErrNotZarr},
		{map[string]string{".zgroup": `{}`, ".nczgroup": `x`}, zarr.LayoutV1, 0},
		{map[string]string{".zgroup": `{}`, ".zattrs": `{"_nczarr_superblock": {"version": "2.0.0"}}`, ".nczgroup": `x`}, zarr.LayoutNewest, 0},
		{map[string]string{".zgroup": `{}`, ".zattrs": `{"_nczarr_group": {"dims": {}, "vars": [], "groups": []}}`}, zarr.LayoutNewest, 0},
		{map[string]string{".zgroup": `{}`, ".zattrs": `{"_nczarr_group": {"dims": {}}}`}, zarr.LayoutPure, 0},
		{map[string]string{"zarr.json": `{}`}, 0, ncerr.ErrMetadata},
		{map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, ".zgroup": `{"zarr_format": 2}`}, zarr.LayoutV3, 0},
		{map[string]string{"README": `hello`}, 0, ncerr.ErrNotZarr},
		{nil, 0, ncerr.ErrNotZarr},
	} {
		got, err := zarr.DetectLayout(docsOf(c.docs), false)
		if ncerr.KindOf(err) != c.kind || err == nil && got != c.want {
			t.Errorf("%v: want %v %v, got %v, %v", c.docs, c.want, c.kind, got, err)
		}
	}
	if got := zarr.LayoutNewest.NodeDocs(); !slices.Equal(got, []string{".zgroup", ".zarray", ".zattrs"}) {
		t.Errorf("unexpected documents of LayoutNewest: %q", got)
	}
	if got := zarr.LayoutV1.NodeDocs(); !slices.Contains(got, ".nczvar") || !slices.Contains(got, ".zattr") {
		t.Errorf("want .nczvar and .zattr among the documents of LayoutV1, got %q", got)
	}
}

// TestFloatsSurvive checks that every layout preserves attribute values with full
// precision, including NaN and infinities.
func TestFloatsSurvive(t *testing.T) {
	t.Parallel()
	attrs := []zarr.Attr{
		{Name: "pi", Type: dtype.NCDouble, Value: []float64{math.Pi, 5e-324, math.MaxFloat64, math.Copysign(0, -1), 1}},
		{Name: "f", Type: dtype.NCFloat, Value: []float32{0.1, 16777216, math.MaxFloat32}},
		{Name: "odd", Type: dtype.NCDouble, Value: []float64{math.NaN(), math.Inf(1), math.Inf(-1)}},
		{Name: "none", Type: dtype.NCDouble, Value: []float64{}},
		{Name: "big", Type: dtype.NCUInt64, Value: []uint64{math.MaxUint64}},
		{Name: "text", Type: dtype.NCString, Value: []string{"", "a\x00b", strings.Repeat("x", 300)}},
	}
	for l := zarr.LayoutNewest; l <= zarr.LayoutV1; l++ {
		g := zarr.Group{Attrs: attrs}
		docs, err := g.Docs(zarr.WriteOptions{Layout: l, IsRoot: true})
		if err != nil {
			t.Fatal(err)
		}
		back, err := zarr.ParseGroup("/", docs, zarr.LayoutNewest)
		if err != nil || len(back.Warnings) > 0 {
			t.Fatalf("%v: unexpected error %v or warnings %q", l, err, back.Warnings)
		}
		diffAttrs(t, attrs, back.Attrs)
	}
	g := zarr.Group{Attrs: []zarr.Attr{{Name: "one", Type: dtype.NCDouble, Value: []float64{1}}}}
	docs, err := g.Docs(zarr.WriteOptions{})
	if err != nil || string(docs[".zattrs"]) != `{"one": 1.0}` {
		t.Errorf("pure Zarr: want 1.0 for a whole double, got %s, %v", docs[".zattrs"], err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`{"_ARRAY_DIMENSIONS": ["a","b"]}`:                       "2 names for 1 dimensions",
		`{"_ARRAY_DIMENSIONS": []}`:                              "0 names for 1 dimensions",
		`{"_ARRAY_DIMENSIONS": 5}`:                               "expected an array of names",
		`{"_ARRAY_DIMENSIONS": ["a/b"]}`:                         "expected an array of names",
		`{"_nczarr_array": {"dimension_references": []}}`:        "0 names for 1 dimensions",
		`{"_nczarr_array": {"dimension_references": ["/../x"]}}`: "invalid dimension name",
	} {
		a, err := zarr.ParseArray("v", zarr.Docs{".zarray": zarray(""), ".zattrs": []byte(members)}, zarr.ParseHint{})
		if err != nil || a.DimNames != nil || a.DimRefs != nil || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], want) {
			t.Errorf("%s: want warning %q, got %+v, %v", members, want, a, err)
		}
	}
	be := zarr.Docs{".zarray": []byte(strings.Replace(string(zarray("")), "<i4", ">i4", 1))}
	a, err := zarr.ParseArray("v", be, zarr.ParseHint{NCProperties: "version=2,netcdf=4.9.0,nczarr=2.0.0"})
	if err != nil || a.DType.Order != dtype.Little || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "stored little-endian bytes") {
		t.Errorf("want little-endian elements and a warning, got %+v, %v", a, err)
	}
	g, err := zarr.ParseGroup("/", zarr.Docs{".zattrs": []byte(`{"_nczarr_group": {"dims": {"../x": 1}, "arrays": ["..", "a/b", "v", "v"], "groups": []}}`)}, zarr.LayoutNewest)
	if err != nil || len(g.Warnings) != 3 || !strings.Contains(g.Warnings[2], "no .zgroup") || len(g.Invalid) != 2 || !slices.Equal(g.Arrays, []string{"v"}) || len(g.Dims) != 0 {
		t.Errorf("want three warnings and two invalid names, got %+v, %v", g, err)
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	ok := zarr.Array{Shape: []int64{4, 4}, Chunks: []int64{2, 2}, DType: dtype.NCInt.Type(dtype.Little)}
	for name, c := range map[string]struct {
		change func(*zarr.Array)
		kind   ncerr.Kind
	}{
		"rank":      {func(a *zarr.Array) { a.Chunks = a.Chunks[:1] }, ncerr.ErrInvalid},
		"chunk 0":   {func(a *zarr.Array) { a.Chunks = []int64{0, 2} }, ncerr.ErrInvalid},
		"scalar":    {func(a *zarr.Array) { a.Scalar = true }, ncerr.ErrInvalid},
		"names":     {func(a *zarr.Array) { a.DimNames = []string{"x"} }, ncerr.ErrInvalid},
		"refs":      {func(a *zarr.Array) { a.DimRefs = []string{"/x", "../y"} }, ncerr.ErrBadName},
		"transpose": {func(a *zarr.Array) { a.Transpose = []int{0, 1} }, ncerr.ErrUnsupported},
		"fill":      {func(a *zarr.Array) { a.HasFill, a.Fill = true, []byte{1} }, ncerr.ErrInvalid},
		"no type":   {func(a *zarr.Array) { a.DType = dtype.Type{} }, ncerr.ErrInvalid},
		"reserved":  {func(a *zarr.Array) { a.Attrs = []zarr.Attr{{Name: "_nczarr_attr", Type: dtype.NCChar, Value: ""}} }, ncerr.ErrBadName},
		"attr type": {func(a *zarr.Array) { a.Attrs = []zarr.Attr{{Name: "a", Type: dtype.NCInt, Value: []int16{1}}} }, ncerr.ErrBadType},
		"twice": {func(a *zarr.Array) {
			a.Attrs = slices.Repeat([]zarr.Attr{{Name: "a", Type: dtype.NCChar, Value: ""}}, 2)
		}, ncerr.ErrNameInUse},
		"params": {func(a *zarr.Array) { a.Codecs = []zarr.CodecSpec{{ID: "x", Params: []byte("{")}} }, ncerr.ErrInvalid},
	} {
		a := ok
		c.change(&a)
		if _, err := a.Docs(zarr.WriteOptions{}); ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want %v, got %v", name, c.kind, err)
		}
	}
	if _, err := ok.Docs(zarr.WriteOptions{Layout: 99}); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("unknown layout: want ErrInvalid, got %v", err)
	}
	g := zarr.Group{Dims: []zarr.Dim{{Name: "a/b", Len: 1}}}
	if _, err := g.Docs(zarr.WriteOptions{}); ncerr.KindOf(err) != ncerr.ErrBadName {
		t.Errorf("dimension a/b: want ErrBadName, got %v", err)
	}
}

// TestMutations removes each value and member name of each golden document, or replaces it
// with an unexpected value. Each result must be an error, or a model that can be written and
// parsed again.
func TestMutations(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", "null", "true", "-1", "1e400", "99999999999999999999", "1.5", `""`, `"x"`, "[]", "[[]]", "[null]", `["x"]`, "{}", `{"size": -1}`, `{"id": 1}`,
		"NaN", strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60), `[9223372036854775807,9223372036854775807]`,
	}
	runs := 0
	for _, c := range golden {
		for doc, text := range c.docs {
			for _, span := range values(text) {
				for _, b := range bad {
					docs := docsOf(c.docs)
					docs[doc] = []byte(text[:span[0]] + b + text[span[1]:])
					parseAny(t, docs, c.layout)
					runs++
				}
			}
		}
	}
	if runs < 2000 {
		t.Errorf("want at least 2000 mutations, got %d", runs)
	}
}

// values returns the spans of all objects, arrays, numbers and strings, including member
// names, in a valid JSON document.
func values(text string) (spans [][2]int) {
	var open []int
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			open = append(open, i)
		case '}', ']':
			spans = append(spans, [2]int{open[len(open)-1], i + 1})
			open = open[:len(open)-1]
		case '"':
			end := i + 1 + strings.IndexByte(text[i+1:], '"')
			spans = append(spans, [2]int{i, end + 1})
			i = end
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-':
			end := i + strings.IndexAny(text[i:], ",]}")
			spans = append(spans, [2]int{i, end})
			i = end - 1
		}
	}
	return spans
}

// parseAny parses documents as an array and as a group. It checks that each valid result
// can be written and parsed again.
func parseAny(t testing.TB, docs zarr.Docs, l zarr.Layout) {
	t.Helper()
	opts := zarr.WriteOptions{Layout: l, IsRoot: true}
	if a, err := zarr.ParseArray("v", docs, zarr.ParseHint{Layout: l}); err == nil {
		if back, err := a.Docs(opts); err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrUnsupported {
				t.Errorf("%s: parsed, but cannot be written: %v", docs, err)
			}
		} else if _, err := zarr.ParseArray("v", back, zarr.ParseHint{Layout: l}); err != nil {
			t.Errorf("%s: rewritten as %s: %v", docs, back, err)
		}
	} else if ncerr.KindOf(err) == ncerr.ErrIO {
		t.Errorf("error without a kind: %v", err)
	}
	if g, err := zarr.ParseGroup("v", docs, zarr.LayoutNewest); err == nil {
		if back, err := g.Docs(opts); err != nil {
			t.Errorf("%s: parsed, but cannot be written: %v", docs, err)
		} else if _, err := zarr.ParseGroup("v", back, zarr.LayoutNewest); err != nil {
			t.Errorf("%s: rewritten as %s: %v", docs, back, err)
		}
	}
	_, _ = zarr.DetectLayout(docs, false)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		_, _ = zarr.ParseConsolidated(docs[name])
	}
}
