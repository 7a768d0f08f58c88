package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// implicitStore returns a store with three kinds of groups without .zgroup: with only
// arrays below, with attributes, and around an explicit group. "other" and "notes" are
// not part of the dataset.
func implicitStore() map[string]string {
	array := func(value byte) string {
		return `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "fill_value": ` + string('0'+value) + `, "order": "C", "compressor": null, "filters": null}`
	}
	return map[string]string{
		".zgroup":              `{"zarr_format": 2}`,
		"plain/deep/v/.zarray": array(1),
		"titled/.zattrs":       `{"title": "T"}`,
		"titled/v/.zarray":     array(2),
		"around/in/.zgroup":    `{"zarr_format": 2}`,
		"around/in/v/.zarray":  array(3),
		"other/a/b/c":          "not Zarr",
		"notes/.zattrs":        `{"n": 1}`,
		"x/.zarray":            array(4),
		"x/0":                  "\x04",
	}
}

// consolidated returns objects with all documents in .zmetadata instead of single files.
func consolidated(objects map[string]string) map[string]string {
	var docs []string
	out := map[string]string{}
	for key, body := range objects {
		if strings.HasPrefix(filepath.Base(key), ".z") {
			docs = append(docs, `"`+key+`": `+body)
		} else {
			out[key] = body
		}
	}
	out[".zmetadata"] = `{"zarr_consolidated_format": 1, "metadata": {` + strings.Join(docs, ", ") + `}}`
	return out
}

// checkImplicit checks that the groups and arrays of the dataset exist with their values,
// and that the dataset has no other groups.
func checkImplicit(t *testing.T, ds *dataset.Dataset) {
	t.Helper()
	if p := ds.Problems(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
	for path, want := range map[string]uint8{"plain/deep/v": 1, "titled/v": 2, "around/in/v": 3, "x": 4} {
		v, err := ds.Root().Var(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := dataset.Get[uint8](t.Context(), v, v.All()); err != nil || !slices.Equal(got, []uint8{want}) {
			t.Errorf("%s: want %d, got %v, %v", path, want, got, err)
		}
	}
	var groups []string
	for _, g := range ds.Root().Groups() {
		groups = append(groups, g.Name())
	}
	if want := []string{"around", "plain", "titled"}; !slices.Equal(groups, want) {
		t.Errorf("groups: want %q, got %q", want, groups)
	}
	if g, err := ds.Root().Group("titled"); err == nil && attr(t, g.Attrs(), "title") != "T" {
		t.Errorf("want title T, got attributes %v", g.Attrs())
	}
}

// TestImplicitGroups checks that a directory between groups and arrays is a group even
// without .zgroup, in every kind of store.
func TestImplicitGroups(t *testing.T) {
	t.Parallel()
	o := memory()
	o.Registry = registry.New([]driver.Opener{file.New(), zip.New()})
	dir := t.TempDir()
	for name, objects := range map[string]map[string]string{"single": implicitStore(), "consolidated": consolidated(implicitStore())} { //nolint:paralleltest // one store
		for ext, open := range map[string]driver.Opener{"": file.New(), ".zip": zip.New()} {
			place := filepath.Join(dir, name+ext)
			m, err := open.Open(t.Context(), driver.OpenSpec{Path: place, Mode: driver.Create})
			if err != nil {
				t.Fatal(err)
			}
			for key, body := range objects {
				if _, err := m.Put(t.Context(), key, driver.Bytes(body), &driver.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(m.Flush(t.Context()), m.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			for _, mode := range []string{"", "#mode=zarr"} {
				t.Run(name+ext+mode, func(t *testing.T) {
					ds, err := openURL(t.Context(), place+mode, o)
					if err != nil {
						t.Fatal(err)
					}
					checkImplicit(t, ds)
					closeDataset(t, ds)
				})
			}
		}
	}
}

// TestImplicitGroupBecomesExplicit checks that a change of an implicit group writes its
// .zgroup, and that consolidated metadata is up to date.
func TestImplicitGroupBecomesExplicit(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "imp", implicitStore())
	ds := update(t, "mem:imp", o)
	checkImplicit(t, ds)
	g, err := ds.Root().Group("titled")
	if err != nil {
		t.Fatal(err)
	}
	setText(t, g.SetAttr, "more", "text")
	if err := ds.Consolidate(); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	o.UseConsolidated = dataset.ConsolidatedVerify
	ds = open(t, "mem:imp", o)
	checkImplicit(t, ds)
	if stale := ds.StaleDocuments(); len(stale) > 0 {
		t.Errorf("want no stale documents, got %q", stale)
	}
	for key, want := range map[string]bool{"titled/.zgroup": true, "plain/.zgroup": false, "other/.zgroup": false} {
		if there, err := ds.Map().Exists(t.Context(), key); err != nil || there != want {
			t.Errorf("%s: want %v, got %v, %v", key, want, there, err)
		}
	}
}

// TestImplicitDepth checks that directories that are nested too deep are left out and
// reported, and that the dataset around them opens.
func TestImplicitDepth(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := implicitStore()
	objects["deep/1/2/3/4/5/6/7/file"] = "x"
	store(t, o, "deep", objects)
	o.Limits.MaxDepth = 6
	ds := open(t, "mem:deep", o)
	if p := ds.Problems(); len(p) != 1 || !errors.Is(p[0].Err, ncerr.ErrLimit) || p[0].Path != "/deep/1/2/3/4/5/6" {
		t.Errorf("problems: %v", p)
	}
	variable(t, ds, "plain/deep/v")
}

// TestOrphanChunksCostOneListing checks that the chunks of an array without .zarray are
// listed once and not requested as documents.
func TestOrphanChunksCostOneListing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for key, body := range map[string]string{".zgroup": `{"zarr_format": 2}`, "v/0.0": "x", "v/0.1": "x", "v/0.2": "x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, key)), 0o777), os.WriteFile(filepath.Join(dir, key), []byte(body), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	var asked sync.Map
	o := fileOptions()
	o.Wrap = func(m driver.Map) driver.Map { return getRecorder{m, &asked} }
	ds := open(t, dir, o)
	if n := len(ds.Root().Groups()) + len(ds.Problems()); n > 0 {
		t.Errorf("want no groups and problems, got %d", n)
	}
	if _, ok := asked.Load("v/.zarray"); !ok {
		t.Error("no requests were recorded")
	}
	asked.Range(func(key, _ any) bool {
		if strings.HasPrefix(fmt.Sprint(key), "v/0") {
			t.Errorf("unexpected request for %s", key)
		}
		return true
	})
}

// getRecorder records the keys passed to Get.
type getRecorder struct {
	driver.Map
	keys *sync.Map
}

func (a getRecorder) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	a.keys.Store(key, true)
	return a.Map.Get(ctx, key, o, alloc)
}

// TestImplicitGroupByItsURL checks that a group without .zgroup can be opened by its
// own URL if it is inside a dataset, and cannot otherwise.
func TestImplicitGroupByItsURL(t *testing.T) {
	t.Parallel()
	o := fileOptions()
	dir := filepath.Join(t.TempDir(), "whole.zarr")
	for key, body := range implicitStore() {
		path := filepath.Join(dir, filepath.FromSlash(key))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(body), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]uint8{"plain/deep": 1, "around/in": 3} {
		ds := open(t, filepath.Join(dir, group), o)
		if p := ds.Root().Path(); group == "plain/deep" && p != "/plain/deep" {
			t.Errorf("%s: want root /plain/deep, got %s", group, p)
		}
		expect(t, ds, "v", []uint8{want})
	}
	if g, err := open(t, filepath.Join(dir, "plain"), o).Root().Group("deep"); err != nil || g.Path() != "/plain/deep" {
		t.Errorf("want group /plain/deep, got %v, %v", g, err)
	}
	up := update(t, filepath.Join(dir, "plain"), o)
	setText(t, up.Root().SetAttr, "title", "T")
	closeDataset(t, up)
	if _, err := os.Stat(filepath.Join(dir, "plain", ".zgroup")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, ".zgroup")); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"around", "other/a", "../whole.zarr/other", "plain/deep/v/0"} {
		if _, err := openURL(t.Context(), filepath.Join(dir, place), o); ncerr.KindOf(err) != ncerr.ErrNotZarr && ncerr.KindOf(err) != ncerr.ErrNoDataset {
			t.Errorf("%s: want ErrNotZarr, got %v", place, err)
		}
	}
}

// foreign is the file driver under another name. It records the paths that it opens.
type foreign struct {
	driver.Opener
	paths []string
}

func (w *foreign) Describe() driver.Description {
	d := w.Opener.Describe()
	d.Name, d.Locality, d.Nested = "foreign", "", false // as of a plugin driver
	return d
}

func (w *foreign) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	w.paths = append(w.paths, spec.Path)
	return w.Opener.Open(ctx, spec)
}

// TestNothingAboveForDriversOfOthers checks that a plugin driver never opens a location
// above the one in the URL, whatever that location contains.
func TestNothingAboveForDriversOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, objects := range map[string]map[string]string{
		"group":   {".zgroup": `{"zarr_format": 2}`, ".zattrs": `{"_nczarr_group": {"dimensions": {}, "arrays": [], "groups": []}}`},
		"nothing": {"v/.zgroup": `{"zarr_format": 2}`},
	} {
		for key, body := range objects {
			path := filepath.Join(dir, name, filepath.FromSlash(key))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(body), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		w := &foreign{Opener: file.New()}
		o := &dataset.Options{Registry: registry.New([]driver.Opener{w})}
		if ds, err := openURL(t.Context(), filepath.Join(dir, name)+"#driver=foreign", o); err == nil {
			closeDataset(t, ds)
		}
		for _, path := range w.paths {
			if path != filepath.Join(dir, name) {
				t.Errorf("%s: the driver opened another path: %q", name, path)
			}
		}
	}
}

// TestDirectoryForAChunk checks that a directory at the path of a chunk is not an
// object, so that the chunk is absent, as docs/reference/key-layout.md says.
func TestDirectoryForAChunk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d.zarr")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "v", "0", "below"), 0o777), os.WriteFile(filepath.Join(dir, ".zgroup"), []byte(`{"zarr_format": 2}`), 0o666),
		os.WriteFile(filepath.Join(dir, "v", ".zarray"), []byte(`{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|u1", "fill_value": 7, "order": "C", "compressor": null, "filters": null}`), 0o666)); err != nil {
		t.Fatal(err)
	}
	expect(t, open(t, dir, fileOptions()), "v", []uint8{7, 7})
}
