package dataset_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// byteDoc is the document of an array of one byte.
const byteDoc = `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "fill_value": 0, "order": "C", "compressor": null, "filters": null}`

// dotted returns a store with an array and a group whose names begin with a dot, an
// array below a directory with such a name, and a directory that is not a node despite
// its name.
func dotted() map[string]string {
	return map[string]string{
		".zgroup":             `{"zarr_format": 2}`,
		"x/.zarray":           byteDoc,
		"x/0":                 "\x01",
		".cal/.zarray":        byteDoc,
		".cal/0":              "\x02",
		".raw/.zgroup":        `{"zarr_format": 2}`,
		".raw/.v/.zarray":     byteDoc,
		".raw/.v/0":           "\x03",
		".dir/v/.zarray":      byteDoc,
		".dir/v/0":            "\x04",
		".git/objects/ab/cd":  "no node",
		".git/HEAD":           "no node",
		".DS_Store":           "no node",
		".nczgrowing/.zarray": byteDoc,
		".zattrs/.zarray":     byteDoc,
	}
}

// dottedNodes returns the arrays of dotted and their values.
func dottedNodes() map[string]uint8 {
	return map[string]uint8{"x": 1, ".cal": 2, ".raw/.v": 3, ".dir/v": 4}
}

// checkDotted checks that the nodes of dotted exist, and no others.
func checkDotted(t *testing.T, ds *dataset.Dataset) {
	t.Helper()
	if p := ds.Problems(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
	for path, want := range dottedNodes() {
		v := variable(t, ds, path)
		if got, err := dataset.Get[uint8](t.Context(), v, v.All()); err != nil || got[0] != want {
			t.Errorf("%s: want %d, got %v, %v", path, want, got, err)
		}
	}
	var names []string
	for _, g := range ds.Root().Groups() {
		names = append(names, g.Name())
	}
	if slices.Sort(names); !slices.Equal(names, []string{".dir", ".raw"}) {
		t.Errorf("want groups .dir and .raw, got %q", names)
	}
	if n := len(ds.Root().Vars()); n != 2 {
		t.Errorf("%d arrays in the root, want 2", n)
	}
}

// In pure Zarr, nodes with names that begin with a dot are like others: they are read,
// copied and included in consolidated metadata.
func TestDottedNames(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := dotted()
	store(t, o, "dot", objects)
	ds := update(t, "mem:dot#mode=zarr", o)
	checkDotted(t, ds)
	if err := ds.Consolidate(); err != nil {
		t.Fatal(err)
	}
	to, err := createURL(t.Context(), "mem:copy#mode=zarr", &dataset.CreateOptions{Options: *o})
	if err != nil {
		t.Fatal(err)
	}
	if err := dataset.Copy(t.Context(), to.Root(), ds.Root(), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, to)
	closeDataset(t, ds)
	checkDotted(t, open(t, "mem:copy#mode=zarr", o))
	o.UseConsolidated = dataset.ConsolidatedTrust
	checkDotted(t, open(t, "mem:dot#mode=zarr", o))
}

// netCDF does not allow names that begin with a dot, so NCZarr groups cannot have them.
func TestDottedNameInNCZarr(t *testing.T) {
	t.Parallel()
	ds, err := createURL(t.Context(), "mem:nc", &dataset.CreateOptions{Options: *memory()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ds.Root().DefineGroup(".cal"); ncerr.KindOf(err) != ncerr.ErrBadName {
		t.Errorf("want ErrBadName, got %v", err)
	}
}

// A link out of the store is reported, even if its name begins with a dot.
func TestDottedLink(t *testing.T) {
	t.Parallel()
	o := memory()
	o.Registry = registry.New([]driver.Opener{file.New()})
	dir, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".zgroup"), []byte(`{"zarr_format": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	symlink(t, out, filepath.Join(dir, ".cal"))
	ds, err := openURL(t.Context(), dir+"#mode=zarr", o)
	if err != nil {
		t.Fatal(err)
	}
	if p := ds.Problems(); len(p) != 1 || p[0].Path != "/.cal" {
		t.Errorf("problems: %v", p)
	}
	closeDataset(t, ds)
}

// Nodes of Zarr v3 below a Zarr v2 group are reported but not read.
func TestV3Below(t *testing.T) {
	t.Parallel()
	objects := map[string]string{
		".zgroup":            `{"zarr_format": 2}`,
		"g/.zgroup":          `{"zarr_format": 2}`,
		"g/a/zarr.json":      `{"zarr_format": 3, "node_type": "array"}`,
		"g/a/c/0":            "\x01",
		"new/zarr.json":      `{"zarr_format": 3, "node_type": "group"}`,
		"new/v/.zarray":      byteDoc,
		"both/.zarray":       byteDoc,
		"both/zarr.json":     `{"zarr_format": 3, "node_type": "array"}`,
		"notes/sub/data.txt": "no node",
	}
	for name, objects := range map[string]map[string]string{"single": objects, "consolidated": consolidatedAll(objects)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			store(t, o, "s", objects)
			ds := open(t, "mem:s", o)
			var paths []string
			for _, p := range ds.Problems() {
				paths = append(paths, p.Path)
				if ncerr.KindOf(p.Err) != ncerr.ErrUnsupported || !strings.Contains(p.Err.Error(), "Zarr v3") {
					t.Errorf("want ErrUnsupported, got %v", p.Err)
				}
			}
			if want := []string{"/g/a", "/new"}; !slices.Equal(paths, want) {
				t.Errorf("problems: %q, want %q", paths, want)
			}
		})
	}
}

// consolidatedAll returns objects with all documents, including those of Zarr v3, in
// .zmetadata instead of single files.
func consolidatedAll(objects map[string]string) map[string]string {
	nodes := make(map[string]zarr.Docs)
	out := maps.Clone(objects)
	for key, body := range objects {
		dir, base := filepath.Split(key)
		if !zarr.IsZarrDoc(base) {
			continue
		}
		if nodes[dir] == nil {
			nodes[dir] = make(zarr.Docs)
		}
		nodes[dir][base] = []byte(body)
		delete(out, key)
	}
	doc, err := zarr.WriteConsolidated(nodes)
	if err != nil {
		panic(err)
	}
	out[".zmetadata"] = string(doc)
	return out
}
