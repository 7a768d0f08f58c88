package dataset_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// stored returns a document of a dataset as it is in the store, without spaces and line
// breaks.
func stored(t *testing.T, ds *dataset.Dataset, key string) string {
	t.Helper()
	body, _, err := ds.Map().ReadAll(t.Context(), key, 0)
	if err != nil {
		t.Errorf("read %s: %v", key, err)
	}
	return strings.NewReplacer(" ", "", "\n", "").Replace(string(body))
}

// An update keeps unknown members of the documents that it writes.
func TestUpdateKeepsForeignMembers(t *testing.T) {
	t.Parallel()
	array := `{"shape": [2], "chunks": [2], "own": [1, {"a": NaN}], ` + i4
	for name, objects := range map[string]map[string]string{
		"newest": {
			".zgroup":   `{"zarr_format": 2, "own": {"deep": [1]}}`,
			".zattrs":   `{"_nczarr_superblock": {"version": "2.0.0", "own": 1}, "_nczarr_group": {"dimensions": {"x": 2}, "arrays": ["v"], "groups": [], "own": 2}, "_nczarr_attr": {"types": {}, "own": 3}}`,
			"v/.zarray": array + `}`,
			"v/.zattrs": `{"_ARRAY_DIMENSIONS": ["x"], "_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked", "own": 4}}`,
		},
		"lower": {
			".zgroup":   `{"zarr_format": 2, "own": {"deep": [1]}, "_nczarr_superblock": {"version": "2.0.0", "own": 1}, "_nczarr_group": {"dims": {"x": 2}, "vars": ["v"], "groups": [], "own": 2}}`,
			".zattrs":   `{"_nczarr_attr": {"types": {}, "own": 3}}`,
			"v/.zarray": array + `, "_nczarr_array": {"dimrefs": ["/x"], "storage": "chunked", "own": 4}}`,
		},
		"v1": {
			".zgroup":     `{"zarr_format": 2, "own": {"deep": [1]}}`,
			".nczarr":     `{"zarr_format": 2, "nczarr_version": "1.0.0", "own": 1}`,
			".nczgroup":   `{"dims": {"x": 2}, "vars": ["v"], "groups": [], "own": 2}`,
			".nczattrs":   `{"types": {}, "own": 3}`,
			"v/.zarray":   array + `}`,
			"v/.nczarray": `{"dimrefs": ["/x"], "storage": "chunked", "own": 4}`,
		},
		"pure": {".zgroup": `{"zarr_format": 2, "own": {"deep": [1]}}`, "v/.zarray": array + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			store(t, o, "k", objects)
			ds := update(t, "mem:k", o)
			setText(t, ds.Root().SetAttr, "new", "x")
			setText(t, variable(t, ds, "v").SetAttr, "new", "x")
			closeDataset(t, ds)
			ds = open(t, "mem:k", o)
			if p := ds.Problems(); len(p) > 0 || len(ds.Root().Vars()) != 1 {
				t.Fatalf("problems: %v", p)
			}
			all := ""
			for _, name := range []string{".zgroup", ".zattrs", ".nczarr", ".nczgroup", ".nczattrs", "v/.zarray", "v/.zattrs", "v/.nczarray"} {
				if there, err := ds.Map().Exists(t.Context(), name); err == nil && there {
					all += stored(t, ds, name)
				}
			}
			want := []string{`"own":{"deep":[1]}`, `"own":[1,{"a":"NaN"}]`}
			if name != "pure" {
				want = append(want, `"own":1`, `"own":2`, `"own":3`, `"own":4`)
			}
			for _, w := range want {
				if strings.Count(all, w) != 1 {
					t.Errorf("want %s once in %s", w, all)
				}
			}
		})
	}
}

// Updating a dataset opened with noxarray keeps its dimension names, although they are
// ignored.
func TestUpdateKeepsNamesOfNoxarray(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "n", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"shape": [2], "chunks": [2], ` + i4 + `}`,
		"v/.zattrs": `{"a": 1, "_ARRAY_DIMENSIONS": ["x"]}`,
	})
	ds := update(t, "mem:n#mode=noxarray", o)
	v := variable(t, ds, "v")
	if n := v.Dims()[0].Name(); n != "_Anonymous_Dim_2" {
		t.Errorf("want an anonymous dimension, got %s", n)
	}
	setText(t, v.SetAttr, "new", "x")
	if err := v.DeleteAttr("a"); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	ds = open(t, "mem:n", o)
	if got, want := stored(t, ds, "v/.zattrs"), `{"new":"x","_ARRAY_DIMENSIONS":["x"]}`; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

// The last attribute stays deleted, even in layouts that write no attribute document if
// there are no attributes.
func TestLastAttributeStaysDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			url := "mem:d#mode=" + c.mode
			ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
			if err != nil {
				t.Fatal(err)
			}
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			x := dim(t, g, "x", 2, false)
			v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
			setText(t, g.SetAttr, "a", "x")
			setText(t, v.SetAttr, "a", "x")
			closeDataset(t, ds)
			ds = update(t, url, o)
			if g, err = ds.Root().Group("g"); err != nil {
				t.Fatal(err)
			}
			if err := g.DeleteAttr("a"); err != nil {
				t.Fatal(err)
			}
			if err := variable(t, ds, "g/v").DeleteAttr("a"); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
			ds = open(t, url, o)
			if g, err = ds.Root().Group("g"); err != nil {
				t.Fatal(err)
			}
			if n := len(g.Attrs()) + len(variable(t, ds, "g/v").Attrs()); n > 0 {
				t.Errorf("%d attributes reappeared", n)
			}
		})
	}
}

// Consolidated metadata repeats the documents as they are in the store, including
// unchanged ones.
func TestConsolidatedRepeatsTheStore(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "c", map[string]string{
		".zgroup": `{"zarr_format": 2}`, ".zattrs": `{"odd": {"b": 1,   "a": [1.50]}}`,
		"v/.zarray": `{"own": 1, "shape": [2], "chunks": [2], ` + i4 + `}`, "v/.zattrs": `{"keep": [[1]]}`,
		"bad/.zarray": `{"shape": "none"}`, "g/.zgroup": `{"zarr_format": 2}`, ".zmetadata": `{"old": true}`,
	})
	ds := update(t, "mem:c", o)
	setText(t, variable(t, ds, "v").SetAttr, "new", "x")
	closeDataset(t, ds)
	o.UseConsolidated = dataset.ConsolidatedVerify
	ds = open(t, "mem:c", o)
	if got := ds.StaleDocuments(); !ds.Consolidated() || len(got) > 0 {
		t.Errorf("want no stale documents, got %q", got)
	}
	got := stored(t, ds, ".zmetadata")
	for _, want := range []string{`".zattrs":{"odd":{"b":1,"a":[1.50]}}`, `"own":1`, `"new":"x"`, `"bad/.zarray":{"shape":"none"}`, `"g/.zgroup"`} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}

// put replaces one object of a store in memory.
func put(t *testing.T, o *dataset.Options, name, key, body string) {
	t.Helper()
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Update})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(t.Context(), key, driver.Bytes(body), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An update is based on the individual documents, never on stale consolidated metadata.
func TestUpdateDoesNotTrustConsolidated(t *testing.T) {
	t.Parallel()
	o := memory()
	layout := zarr.LayoutNewest
	const url = "mem:s#mode=nczarr,consolidated"
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &layout})
	if err != nil {
		t.Fatal(err)
	}
	x := dim(t, ds.Root(), "x", 2, false)
	define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Attrs: []dataset.Attr{{Name: "a", Type: dtype.NCChar, Value: "old"}}})
	closeDataset(t, ds)
	old := stored(t, open(t, url, o), ".zmetadata")
	ds = update(t, url, o)
	setText(t, variable(t, ds, "v").SetAttr, "a", "current")
	closeDataset(t, ds)
	put(t, o, "s", ".zmetadata", old)
	o.UseConsolidated = dataset.ConsolidatedTrust
	if a, err := variable(t, open(t, url, o), "v").Attr("a"); err != nil || a.Value != "old" {
		t.Fatalf("the consolidated metadata is not stale: %v, %v", a, err)
	}
	ds = update(t, url, o)
	setText(t, variable(t, ds, "v").SetAttr, "b", "new")
	closeDataset(t, ds)
	if a, err := variable(t, open(t, url, o), "v").Attr("a"); err != nil || a.Value != "current" {
		t.Errorf("want the value in the store, got %v, %v", a, err)
	}
}

// In every layout, fresh consolidated metadata is used without a warning, and
// consolidated metadata that differs from the root's documents is not used.
func TestFreshConsolidated(t *testing.T) {
	t.Parallel()
	for name, c := range layouts {
		if c.layout.Inline() { // the root's document contains the consolidated metadata
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inMemory() // consolidated metadata in a high-latency store is not checked
			var log strings.Builder
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			url := "mem:f#mode=" + strings.TrimSuffix(c.mode, ",consolidated") + ",consolidated"
			ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &c.layout})
			if err != nil {
				t.Fatal(err)
			}
			setText(t, ds.Root().SetAttr, "title", "root")
			x := dim(t, ds.Root(), "x", 2, false)
			define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
			closeDataset(t, ds)
			if got := attr(t, open(t, url, o).Root().Attrs(), "title"); got != "root" || log.Len() > 0 {
				t.Errorf("want %q and no message, got %v: %s", "root", got, log.String())
			}
			put(t, o, "f", ".zattrs", strings.Replace(stored(t, open(t, url, o), ".zattrs"), "root", "other", 1))
			if got := attr(t, open(t, url, o).Root().Attrs(), "title"); got != "other" || !strings.Contains(log.String(), "stale") {
				t.Errorf("want the attribute of the store and a message, got %v: %s", got, log.String())
			}
		})
	}
}
