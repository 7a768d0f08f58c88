package dataset_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// maskOf returns the fill_value and the attributes of the variable v in a store.
func maskOf(t *testing.T, ds *dataset.Dataset) string {
	t.Helper()
	var text string
	if ds.Layout().Format() == 3 {
		text = stored(t, ds, "v/zarr.json")
	} else {
		text = stored(t, ds, "v/.zarray")
		if body, _, err := ds.Map().ReadAll(t.Context(), "v/.zattrs", 0); err == nil {
			text += `"attributes":` + strings.ReplaceAll(string(body), " ", "")
		}
	}
	fill := regexp.MustCompile(`"fill_value":(\{[^}]*\}|\[[^]]*\]|"[^"]*"|[^,}]*)`).FindStringSubmatch(text)
	attr := regexp.MustCompile(`"_FillValue":("[^"]*"|\[[^]]*\]|[^,}]*)`).FindStringSubmatch(text)
	if fill == nil {
		t.Fatalf("no fill_value in %s", text)
	}
	if attr == nil {
		return fill[1]
	}
	return fill[1] + " _FillValue " + attr[1]
}

// xarray treats fill_value as missing in Zarr v2, and the attribute _FillValue in Zarr v3.
// A copy or a migration between the two keeps the meaning, and so does the way back.
func TestMaskOfCopies(t *testing.T) {
	t.Parallel()
	v2 := func(dt, fill, attrs string) map[string]string {
		filters := "null"
		if dt == "|O" {
			filters = `[{"id": "vlen-utf8"}]`
		}
		return map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": document(dt, fill, "C", filters), "v/.zattrs": attrs}
	}
	v3 := func(dt, fill, attrs string) map[string]string {
		codec := `{"name": "bytes", "configuration": {"endian": "little"}}`
		if dt == `"string"` {
			codec = `{"name": "vlen-utf8"}`
		}
		return map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, "v/zarr.json": `{"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": ` + dt +
			`, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": {"name": "v2"}, "fill_value": ` + fill +
			`, "codecs": [` + codec + `], "attributes": ` + attrs + `}`}
	}
	const zero, half = "AAAAAAAAAAA=", "AAAAAAAA4D8="
	for i, c := range []struct {
		objects     map[string]string
		there, back string // in a copy to the other version, and in a copy of that
		onlyMigrate bool
	}{
		{v2("<i4", "null", "{}"), "0", "null", false},
		{v2("<i4", "0", "{}"), "0 _FillValue 0", "0 _FillValue 0", false},
		{v2(">i8", "-9223372036854775808", "{}"), "-9223372036854775808 _FillValue -9223372036854775808", "-9223372036854775808 _FillValue -9223372036854775808", false},
		{v2("|u1", "5", `{"_FillValue": 5}`), "5 _FillValue 5", "5 _FillValue 5", false},
		{v2("<f4", "0.5", "{}"), `0.5 _FillValue "` + half + `"`, "0.5 _FillValue 0.5", false},
		{v2("<f2", "0", "{}"), `0.0 _FillValue "` + zero + `"`, "0 _FillValue 0.0", false},
		{v2("<f8", `"NaN"`, "{}"), `"NaN"`, `"NaN"`, false},
		{v2("|b1", "false", "{}"), "false _FillValue 0", "false _FillValue 0", false},
		{v2("|b1", "null", "{}"), "false", "null", false},
		{v2("|S3", "null", "{}"), `""`, "null", false},
		{v2("<U3", `"ab"`, "{}"), `"ab"`, `"ab"`, false},
		{v2("<U3", "null", "{}"), `""`, "null", false},
		{v2("|O", "null", "{}"), `""`, "null", false},
		{v2("<M8[s]", "0", "{}"), "0", "0", false},
		{v2("<M8[s]", "null", "{}"), "-9223372036854775808", "-9223372036854775808", false},
		{v2("<c8", "[0.5, 0]", "{}"), `[0.5,0.0] _FillValue ["` + half + `","` + zero + `"]`, `[0.5,0] _FillValue ["` + half + `","` + zero + `"]`, true},
		{v2("<c8", `["NaN", 0]`, "{}"), `["NaN",0.0]`, `["NaN",0]`, true},
		{v2("<c8", "null", "{}"), `[0.0,0.0]`, "null", true},
		{v3(`"int32"`, "0", "{}"), "null", "0", false},
		{v3(`"int32"`, "0", `{"_FillValue": 0}`), "0 _FillValue 0", "0 _FillValue 0", false},
		{v3(`"int32"`, "7", "{}"), "7", "7 _FillValue 7", false},
		{v3(`"float32"`, `"NaN"`, "{}"), `"NaN"`, `"NaN"`, false},
		{v3(`"float32"`, "-0.0", "{}"), "null", "0.0", false},
		{v3(`"float64"`, "0", `{"_FillValue": "`+zero+`"}`), "0 _FillValue 0.0", `0.0 _FillValue "` + zero + `"`, false},
		{v3(`"string"`, `""`, "{}"), "null", `""`, false},
		{v3(`"string"`, `"x"`, "{}"), `"x"`, `"x"`, false},
		{v3(`"complex64"`, "[0.0,0.0]", "{}"), "null", "[0.0,0.0]", true},
	} {
		_, is3 := c.objects["zarr.json"]
		steps := []zarr.Layout{zarr.LayoutV3, zarr.LayoutPure}
		if is3 {
			steps = []zarr.Layout{zarr.LayoutPure, zarr.LayoutV3}
		}
		for _, migrates := range []bool{false, true} {
			if c.onlyMigrate && !migrates { // a copy has an array for each part
				continue
			}
			o, at := memory(filters.Provider(), vlen.Provider()), fmt.Sprintf("mask%d%v", i, migrates)
			store(t, o, at, c.objects)
			url := "mem:" + at + map[bool]string{false: "#mode=zarr"}[is3]
			for k, layout := range steps {
				var ds *dataset.Dataset
				if migrates {
					lost := len(migrate(t, "mem:"+at, layout, o).Lost)
					ds = open(t, "mem:"+at, o)
					if isNull := maskOf(t, ds) == "null" && ds.Root().Vars()[0].DType().Kind != dtype.Bytes; isNull != (lost == 1) {
						t.Errorf("%v to %v: want a warning only about a fill value that becomes null, got %d warnings", c.objects, layout, lost)
					}
				} else {
					to := fmt.Sprintf("mem:%s-%d#mode=zarr,v%d", at, k, layout.Format())
					ds = copyOf(t, open(t, url, o), to, o, &layout)
					url = to
				}
				if got, want := maskOf(t, ds), []string{c.there, c.back}[k]; got != want {
					t.Errorf("%v, migrated: %v, to %v: want %s, got %s", c.objects, migrates, layout, want, got)
				}
			}
		}
	}
}

// In NCZarr the default fill value of the type marks missing values without an attribute, so
// copies between its layouts do not add one. The fields of a structure have no fill value of
// zero in Zarr v2, because xarray would treat a zero of one field as missing.
func TestMaskInNCZarr(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	pure := map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": document("<c8", "[0, 0]", "C", "null"), "s/.zarray": document("|S3", "null", "C", "null")}
	for name, fill := range map[string]string{"default": "-2147483647", "zero": "0", "five": "5"} {
		pure[name+"/.zarray"] = document("<i4", fill, "C", "null")
	}
	store(t, o, "pure", pure)
	nczarr := copyOf(t, open(t, "mem:pure#mode=zarr", o), "mem:nczarr#mode=nczarr", o, nil)
	three := copyOf(t, nczarr, "mem:three#mode=nczarr,v3", o, nil)
	for ds, want := range map[*dataset.Dataset]map[string]string{
		nczarr: {"v.real": "<nil>", "v.imag": "<nil>", "s": "<nil>", "default": "[-2147483647]", "zero": "[0]", "five": "[5]"},
		three:  {"v.real": "[0]", "v.imag": "[0]", "s": "[]", "default": "[-2147483647]", "zero": "[0] _FillValue", "five": "[5] _FillValue"},
	} {
		got := make(map[string]string)
		for _, v := range ds.Root().Vars() {
			fill, _ := v.Fill()
			got[v.Name()] = fmt.Sprint(fill)
			if slices.ContainsFunc(v.Attrs(), func(a dataset.Attr) bool { return a.Name == "_FillValue" }) {
				got[v.Name()] += " _FillValue"
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v: want %v, got %v", ds.Layout(), want, got)
		}
	}
}

// A null fill value does not define the values of absent chunks, and zarr-python 2 returns
// the content of unused memory. A copy stores the chunks that are absent in a source with
// a fill value, also if it moves the other chunks.
func TestCopyDefinesAbsentChunks(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	array := `{"zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "int8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, ` +
		`"chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]}`
	store(t, o, "sparse", map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, "v/zarr.json": array, "v/c/1": "\x01\x02"})
	src := open(t, "mem:sparse", o)
	for mode, want := range map[string]int{"zarr,v2": 3, "nczarr": 3, "zarr,v3": 1} {
		url := "mem:" + mode[:4] + mode[len(mode)-1:]
		copyOf(t, src, url+"#mode="+mode, o, nil)
		if chunks := bodies(t, url, o); len(chunks) != want {
			t.Errorf("%s: want %d chunks, got %q", mode, want, chunks)
		}
	}
	chain := func(*dataset.Var) ([]zarr.CodecSpec, bool, error) { return []zarr.CodecSpec{{ID: "zlib"}}, true, nil }
	dst, err := createURL(t.Context(), "mem:again#mode=zarr", &dataset.CreateOptions{Options: *o})
	if err == nil {
		err = dataset.Copy(t.Context(), dst.Root(), src.Root(), &dataset.CopyOptions{Codecs: chain})
	}
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, dst)
	if chunks := bodies(t, "mem:again", o); len(chunks) != 3 {
		t.Errorf("encoded again: want 3 chunks, got %q", chunks)
	}
}

// A sparse array keeps its fill value, because a copy would otherwise store all chunks that
// the source lacks.
func TestMaskOfSparseArray(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	for length, want := range map[int]struct {
		fill   string
		chunks int
	}{10_001: {"null", 10_001}, 10_002: {"0", 1}} { // one chunk is stored
		at := fmt.Sprint("sparse", length)
		store(t, o, at, map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, "v/c/1": "\x07", "v/zarr.json": fmt.Sprintf(
			`{"zarr_format": 3, "node_type": "array", "shape": [%d], "data_type": "int8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, `+
				`"chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]}`, length)})
		dst := copyOf(t, open(t, "mem:"+at, o), "mem:dense"+at+"#mode=zarr,v2", o, nil)
		if fill, chunks := maskOf(t, dst), len(bodies(t, "mem:dense"+at, o)); fill != want.fill || chunks != want.chunks {
			t.Errorf("%d chunks: want fill value %s and %d chunks, got %s and %d", length, want.fill, want.chunks, fill, chunks)
		}
	}
}

// If the chunks cannot be listed, a large array may be sparse.
func TestMaskOfUnlistedArray(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	var refused atomic.Bool
	hidden := hook(o, func(op, _ string) error {
		if op == "list" && refused.Load() {
			return ncerr.New(ncerr.ErrUnsupported, "list", "", nil)
		}
		return nil
	})
	store(t, o, "unlisted", map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, "v/c/1": "\x07", "v/zarr.json": `{"zarr_format": 3, "node_type": "array", ` +
		`"shape": [10002], "data_type": "int8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]}`})
	src := open(t, "mem:unlisted", hidden)
	refused.Store(true)
	if got := maskOf(t, copyOf(t, src, "mem:listed#mode=zarr,v2", o, nil)); got != "0" {
		t.Errorf("want the fill value 0, got %s", got)
	}
}

// NCZarr omits a _FillValue that does not fit, which then does not mark missing values.
func TestMaskOfMisfit(t *testing.T) {
	t.Parallel()
	o := memory(filters.Provider())
	store(t, o, "misfit", map[string]string{"zarr.json": `{"zarr_format": 3, "node_type": "group"}`, "v/zarr.json": `{"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "int8", ` +
		`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}], "attributes": {"_FillValue": 300}}`})
	if got := maskOf(t, copyOf(t, open(t, "mem:misfit", o), "mem:fit#mode=nczarr", o, nil)); got != "null" {
		t.Errorf("want a null fill value, got %s", got)
	}
}
