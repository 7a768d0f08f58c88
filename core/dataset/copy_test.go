package dataset_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/delta"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// document returns the .zarray of an array of two elements in chunks of two.
func document(dt, fill, order, codecs string) string {
	return `{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "` + dt + `", "fill_value": ` + fill + `, "order": "` + order + `", "compressor": null, "filters": ` + codecs + `}`
}

// oddArrays returns a pure Zarr dataset with element types and shapes that netCDF lacks.
func oddArrays() map[string]string {
	return map[string]string{
		".zgroup":        `{"zarr_format": 2}`,
		"half/.zarray":   document(">f2", `"NaN"`, "C", "null"),
		"half/0":         "\x3c\x00\xc0\x00",
		"bool/.zarray":   document("|b1", "true", "C", "null"),
		"date/.zarray":   document("<M8[ns]", "0", "C", "null"),
		"date/0":         "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80",
		"ucs4/.zarray":   document(">U2", `""`, "C", "null"),
		"ucs4/0":         "\x00\x01\xf6\x00\x00\x01\xf6\x00\x00\x00\x00\xe4\x00\x00\x00\x00",
		"s1/.zarray":     document("|S1", `""`, "C", "null"),
		"s1/0":           "ab",
		"s3/.zarray":     document("|S3", `"eHg="`, "C", "null"),
		"null/.zarray":   document("<i4", "null", "C", "null"),
		"big/.zarray":    document(">i8", "-5", "C", "null"),
		"coded/.zarray":  document("<f2", "1.5", "C", `[{"id": "invert"}]`),
		"scalar/.zarray": strings.ReplaceAll(document("<i4", "3", "C", "null"), "[2]", "[]"),
		"zero/.zarray":   strings.ReplaceAll(document("<i4", "3", "C", "null"), `"shape": [2]`, `"shape": [0]`),
		"f/.zarray":      strings.ReplaceAll(document("<i2", "3", "F", "null"), "[2]", "[2, 2]"),
		"f/0.0":          "\x01\x00\x02\x00\x03\x00\x04\x00",
	}
}

func oddValues() map[string]any {
	nan := float32(math.NaN())
	return map[string]any{
		"half": []float32{1, -2}, "bool": []uint8{1, 1}, "date": []int64{1, math.MinInt64}, "ucs4": []string{"\U0001F600\U0001F600", "ä"},
		"s1": []uint8("ab"), "s3": []string{"xx", "xx"}, "null": []int32{0, 0}, "big": []int64{-5, -5},
		"coded": []float32{1.5, 1.5}, "scalar": []int32{3}, "zero": []int32{}, "f": []int16{1, 3, 2, 4}, "nan": []float32{nan, nan},
	}
}

// A dataset with unusual element types can be copied to every layout and from there to
// NCZarr, with equal values, byte order, fill values and names.
func TestCopyIntoEveryLayout(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory(invert{}, vlen.Provider())
			objects := oddArrays()
			objects["nan/.zarray"] = document("<f4", `"NaN"`, "C", "null")
			objects["nan/.zattrs"] = `{"_ARRAY_DIMENSIONS": ["x"], "units": "m"}`
			store(t, o, "src", objects)
			src := open(t, "mem:src#mode=zarr", o)
			checkOddArrays(t, src)
			once := copyOf(t, src, "mem:once#mode="+c.mode, o, &c.layout)
			checkOddArrays(t, once)
			twice := copyOf(t, once, "mem:twice#mode=nczarr", o, nil)
			checkOddArrays(t, twice)
			if v := variable(t, twice, "nan"); attr(t, v.Attrs(), "units") != "m" || v.Dims()[0].Name() != "x" && c.layout != zarr.LayoutUpper {
				t.Errorf("nan: want units m and dimension x, got dimension %s", v.Dims()[0].Name())
			}
			for _, v := range []*dataset.Var{variable(t, once, "big"), variable(t, twice, "big")} {
				if v.DType().Order != dtype.Big {
					t.Error("the byte order has changed")
				}
			}
			if _, ok := variable(t, twice, "null").Fill(); ok && c.layout.Format() != 3 { // v3 has no null
				t.Error("the copy has a fill value, but the source has none")
			}
		})
	}
}

func copyOf(t *testing.T, src *dataset.Dataset, url string, o *dataset.Options, layout *zarr.Layout) *dataset.Dataset {
	t.Helper()
	dst, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, dst)
	ds := open(t, url, o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	return ds
}

func checkOddArrays(t *testing.T, ds *dataset.Dataset) {
	t.Helper()
	for name, want := range oddValues() {
		v := variable(t, ds, name)
		switch w := want.(type) {
		case []float32:
			got, err := dataset.Get[float32](t.Context(), v, v.All())
			if err != nil || !slices.EqualFunc(got, w, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Errorf("%s: want %v, got %v, %v", name, w, got, err)
			}
		case []uint8:
			expect(t, ds, name, w)
		case []int16:
			expect(t, ds, name, w)
		case []int32:
			expect(t, ds, name, w)
		case []int64:
			expect(t, ds, name, w)
		case []string:
			expect(t, ds, name, w)
		}
	}
}

// Generated names of dimensions are not written to pure Zarr.
func TestCopyWritesNoInventedNames(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	store(t, o, "src", oddArrays())
	ds := copyOf(t, open(t, "mem:src#mode=zarr", o), "mem:dst#mode=zarr", o, nil)
	body, _, err := ds.Map().ReadAll(t.Context(), "big/.zattrs", 0)
	if err != nil || strings.Contains(string(body), "Anonymous") {
		t.Errorf("want a document without generated names, got %s, %v", body, err)
	}
}

// A copy of a group inside a dataset includes the dimensions of the groups above.
func TestCopyOfASubgroup(t *testing.T) {
	t.Parallel()
	o := fileOptions()
	dir := t.TempDir()
	ds := create(t, dir+"/whole.file", o)
	time, x := dim(t, ds.Root(), "time", 0, true), dim(t, ds.Root(), "x", 2, false)
	g, err := ds.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	inner := dim(t, g, "x", 3, false) // shadows the dimension x of the root
	h, err := g.DefineGroup("h")
	if err != nil {
		t.Fatal(err)
	}
	v := define(t, h, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time, inner}})
	if err := v.Write(t.Context(), chunk.Selection{Start: []int64{0, 0}, Count: []int64{2, 3}}, []int32{1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	_ = x
	closeDataset(t, ds)
	part := copyOf(t, open(t, dir+"/whole.file/g/h", o), dir+"/part.file", o, nil)
	expect(t, part, "v", []int32{1, 2, 3, 4, 5, 6})
	dims := variable(t, part, "v").Dims()
	if dims[0].Name() != "time" || !dims[0].Unlimited() || dims[1].Name() != "x" {
		t.Errorf("want dimensions time and x, got %s, %s", dims[0].Path(), dims[1].Path())
	}
}

// A codec with the stored element type as a parameter is not applied to another type.
func TestCopyOfHalfPrecisionDeltas(t *testing.T) {
	t.Parallel()
	o := memory(delta.Provider())
	store(t, o, "src", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/0": "\xff\x7b\xff\xfb",
		"v/.zarray": document("<f2", "0", "C", `[{"id": "delta", "dtype": "<f2"}]`),
	})
	src := open(t, "mem:src#mode=zarr", o)
	want, err := dataset.Get[float32](t.Context(), variable(t, src, "v"), variable(t, src, "v").All())
	if err != nil || want[0] == 0 {
		t.Fatalf("values of the source: %v, %v", want, err)
	}
	expect(t, copyOf(t, src, "mem:dst#mode=zarr", o, nil), "v", want)
}

// For shuffle, a missing element size means 4 bytes, and 0 means the size of the
// elements. A copy always specifies the size, so chunks are copied as stored only if
// the size is the same.
func TestCopyOfUnstatedSizes(t *testing.T) {
	t.Parallel()
	o := memory(shuffle.Provider())
	objects := map[string]string{".zgroup": `{"zarr_format": 2}`}
	for name, params := range map[string]string{"none": "", "zero": `, "elementsize": 0`, "two": `, "elementsize": 2`, "eight": `, "elementsize": 8`} {
		objects[name+"/.zarray"] = document("<i8", "0", "C", `[{"id": "shuffle"`+params+`}]`)
		objects[name+"/0"] = "abcdefghijklmnop"
	}
	store(t, o, "src", objects)
	src := open(t, "mem:src#mode=zarr", o)
	for _, mode := range []string{"zarr", "nczarr", "zarr,v3"} {
		dst := copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil)
		for _, v := range src.Root().Vars() {
			want, err := dataset.Get[int64](t.Context(), v, v.All())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, dst, v.Name(), want)
		}
	}
}
