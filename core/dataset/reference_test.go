package dataset_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// TestReferenceDatasets reads datasets that libnetcdf 4.10.1 refuses as a whole,
// misreads or crashes on. Each name is a row of docs/explanation/correctness.md. The
// variable "ok" is readable in all of them.
func TestReferenceDatasets(t *testing.T) {
	t.Parallel()
	array := func(shape, more string) string {
		return `{"shape": ` + shape + `, "chunks": ` + shape + `, ` + i4 + more + `}`
	}
	block := func(refs string) string {
		return `{"_nczarr_array": {"dimension_references": ` + refs + `, "storage": "chunked"}}`
	}
	root := func(dims, arrays, groups string) string {
		return `{` + superblock + `, "_nczarr_group": {"dimensions": {"z": 1, ` + dims + `}, "arrays": ["ok", ` + arrays + `], "groups": [` + groups + `]}}`
	}
	for name, c := range map[string]struct {
		mode    string
		objects map[string]string // in addition to the root's .zgroup and ok
		problem string            // path of the part that is left out, and the reason
		check   func(ds *dataset.Dataset) bool
	}{
		"no .zgroup": {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, ""), ".zgroup": "", "v/.zarray": array("[2]", ""), "v/.zattrs": block(`["/x"]`)}, "", nil},
		"group without .zgroup": {"nczarr", map[string]string{
			".zattrs": root(`"x": 2`, `"v"`, `"g"`), "v/.zarray": array("[2]", ""), "v/.zattrs": block(`["/x"]`),
			"g/.zattrs": `{"a": 1, "_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}}`,
		}, "", func(ds *dataset.Dataset) bool { return len(ds.Root().Groups()) == 1 }},
		"group without .zattrs":    {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, `"g"`), "v/.zarray": array("[2]", ""), "g/.zgroup": `{"zarr_format": 2}`}, "", nil},
		"variable without .zattrs": {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, ""), "v/.zarray": array("[2]", "")}, "", nil},
		"listed and not there":     {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, "")}, "/v: listed in /, but this document is missing", nil},
		"shape of another length":  {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, ""), "v/.zarray": array("[3]", ""), "v/.zattrs": block(`["/x"]`)}, `/v: has length 3 along dimension "/x", which has length 2`, nil},
		"unknown type":             {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, ""), "v/.zarray": strings.NewReplacer("<i4", "|V3", `"fill_value": 7`, `"fill_value": null`).Replace(array("[2]", ""))}, "/v: no type", nil},
		"unlimited as a flag": {"nczarr", map[string]string{".zattrs": root(`"x": {"size": 2, "unlimited": true}`, `"v"`, ""), "v/.zarray": array("[2]", ""), "v/.zattrs": block(`["/x"]`)}, "", func(ds *dataset.Dataset) bool {
			d, err := ds.Root().Dim("x")
			return err == nil && d.Unlimited()
		}},
		"length 0, fixed": {"nczarr", map[string]string{".zattrs": root(`"x": 0`, `"v"`, ""), "v/.zarray": `{"shape": [0], "chunks": [1], ` + i4 + `}`, "v/.zattrs": block(`["/x"]`)}, "", func(ds *dataset.Dataset) bool {
			d, err := ds.Root().Dim("x")
			return err == nil && !d.Unlimited() && d.Len() == 0
		}},
		"relative reference":        {"nczarr", map[string]string{".zattrs": root(`"x": 2`, `"v"`, ""), "v/.zarray": array("[2]", ""), "v/.zattrs": block(`["x"]`)}, "", hasDims("x")},
		"names and no more":         {"zarr", map[string]string{"v/.zarray": array("[2,3]", ""), "v/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`}, "", hasDims("_Anonymous_Dim_2", "_Anonymous_Dim_3")},
		"names that conflict":       {"zarr", map[string]string{"a/.zarray": array("[2]", ""), "a/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`, "v/.zarray": array("[3]", ""), "v/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"]}`}, "", hasDims("_Anonymous_Dim_3")},
		"scalar of shape []":        {"zarr", map[string]string{"v/.zarray": array("[]", "")}, "", hasDims()},
		"no attributes of a list":   {"zarr", map[string]string{"v/.zarray": array("[2]", ""), "v/.zattrs": `{"a": [], "b": [1, "x"]}`}, "", nil},
		"documents of another kind": {"zarr", map[string]string{"v/.zarray": array("[2]", ""), "README": "hello", "v/0.bak": "x", "empty/notes": "x"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			objects := map[string]string{".zgroup": `{"zarr_format": 2}`, "ok/.zarray": array("[1]", ""), "ok/.zattrs": block(`["/z"]`)}
			maps.Copy(objects, c.objects)
			maps.DeleteFunc(objects, func(_, text string) bool { return text == "" })
			store(t, o, "ref", objects)
			ds := open(t, "mem:ref#mode="+c.mode, o)
			expect(t, ds, "ok", []int32{7})
			problems := ""
			for _, p := range ds.Problems() {
				problems += p.Path + ": " + p.Err.Error()
			}
			at, why, _ := strings.Cut(c.problem, ": ")
			switch {
			case (problems == "") != (c.problem == ""), !strings.HasPrefix(problems, at), !strings.Contains(problems, why):
				t.Errorf("want %q, got %q", c.problem, problems)
			case c.check != nil && !c.check(ds):
				t.Errorf("unexpected variables %v", ds.Root().Vars())
			case c.problem == "":
				v := variable(t, ds, "v")
				if got, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil || slices.ContainsFunc(got, func(n int32) bool { return n != 7 }) {
					t.Errorf("want only values of 7, got %v, %v", got, err)
				}
			}
		})
	}
}

// hasDims returns a function that checks the dimension names of the variable v.
func hasDims(names ...string) func(*dataset.Dataset) bool {
	return func(ds *dataset.Dataset) bool {
		v, err := ds.Root().Var("v")
		if err != nil || v.Rank() != len(names) {
			return false
		}
		for i, d := range v.Dims() {
			if d.Name() != names[i] {
				return false
			}
		}
		return true
	}
}

// TestReadingWritesNothing checks that a read does not create missing chunks. libnetcdf
// does if the dataset is open for writing.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "r", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"shape": [4], "chunks": [2], ` + i4 + `}`})
	ds := update(t, "mem:r", o)
	expect(t, ds, "v", []int32{7, 7, 7, 7})
	closeDataset(t, ds)
	if names, err := open(t, "mem:r", o).Map().Search(t.Context(), "v"); err != nil || !slices.Equal(names, []string{".zarray"}) {
		t.Errorf("want only .zarray, got %q, %v", names, err)
	}
}

// TestOneChunkStorage checks that contiguous and compact variables are stored as one
// chunk of their shape in every layout, as libnetcdf stores them.
func TestOneChunkStorage(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		o := memory()
		url := "mem:one#mode=" + c.mode
		ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
		if err != nil {
			t.Fatal(err)
		}
		x, y := dim(t, ds.Root(), "x", 3, false), dim(t, ds.Root(), "y", 2000, false)
		for _, storage := range []string{"contiguous", "compact"} {
			v := define(t, ds.Root(), storage, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Storage: storage})
			write(t, v, v.All(), count[int32](6000))
		}
		closeDataset(t, ds)
		ds = open(t, url, o)
		for _, storage := range []string{"contiguous", "compact"} {
			v := variable(t, ds, storage)
			word := "chunked"
			if !c.layout.NCZarr() || c.layout.Inline() {
				word = ""
			}
			chunk := []string{"0.0", "1.0"}
			if c.layout.Inline() {
				chunk = []string{"c/0/0", "c/1/0"}
			}
			if !slices.Equal(v.Chunks(), []int64{2000, 3}) || v.Storage() != word {
				t.Errorf("%s: %s: unexpected chunks %v or storage %q", name, storage, v.Chunks(), v.Storage())
			}
			expect(t, ds, storage, count[int32](6000))
			keys := keysOf(t, ds)
			if !slices.Contains(keys, storage+"/"+chunk[0]) || slices.Contains(keys, storage+"/"+chunk[1]) {
				t.Errorf("%s: unexpected keys %q", name, keys)
			}
		}
	}
}
