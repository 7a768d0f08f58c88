package remote_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/s3"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// must returns a function that ends the test on an error.
func must[V any](t *testing.T) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLayoutsOnS3 creates, writes, updates, consolidates and copies a dataset of every
// layout in a bucket and in a directory. The values must be correct, and the objects in
// the bucket must have the same bytes as the files in the directory. The test reads the
// bucket's objects from the directory of the server.
func TestLayoutsOnS3(t *testing.T) { //nolint:paralleltest // the test sets environment variables
	srv := bucket(t)
	o := dataset.Options{Registry: registry.New([]driver.Opener{file.New(), s3.New()}, builtin.Provider()), SingleWriter: true}
	for _, layout := range []zarr.Layout{zarr.LayoutPure, zarr.LayoutNewest, zarr.LayoutLower, zarr.LayoutUpper, zarr.LayoutV1, zarr.LayoutV3, zarr.LayoutNCZarr3} { //nolint:paralleltest // the layouts share a bucket and must run in sequence
		t.Run(layout.String(), func(t *testing.T) {
			dir, key := t.TempDir(), "l"+layout.String()
			local := filepath.Join(dir, key) + "#mode=" + format(layout)
			remote := srv.URL(key, format(layout)+",s3")
			for _, url := range []string{local, remote} {
				createDataset(t, url, o, layout)
				changeDataset(t, url, o)
				checkDataset(t, url, o, layout)
			}
			copied := srv.URL(key+".copy", format(layout)+",s3")
			dst := must[*dataset.Dataset](t)(open.Create(t.Context(), copied, &dataset.CreateOptions{Options: o, Layout: &layout}))
			src := must[*dataset.Dataset](t)(open.Open(t.Context(), local, &o))
			ok(t, dataset.Copy(t.Context(), dst.Root(), src.Root(), nil))
			ok(t, dst.Close(t.Context()))
			ok(t, src.Close(t.Context()))
			checkDataset(t, copied, o, layout)
			sameObjects(t, srv, filepath.Join(dir, key), key)
		})
	}
}

func format(l zarr.Layout) string {
	mode := "zarr"
	if l.NCZarr() {
		mode = "nczarr"
	}
	if l.Format() == 3 {
		mode += ",v3"
	}
	return mode
}

// createDataset creates the dataset: a group with a compressed variable that has partial
// chunks, one of which stays absent, and a string variable.
func createDataset(t *testing.T, url string, o dataset.Options, layout zarr.Layout) {
	t.Helper()
	ds := must[*dataset.Dataset](t)(open.Create(t.Context(), url, &dataset.CreateOptions{Options: o, Layout: &layout}))
	time := must[*dataset.Dim](t)(ds.Root().DefineDim("time", 4, layout.KeepsUnlimited()))
	x := must[*dataset.Dim](t)(ds.Root().DefineDim("x", 3, false))
	g := must[*dataset.Group](t)(ds.Root().DefineGroup("g"))
	v := must[*dataset.Var](t)(g.DefineVar(t.Context(), "v", &dataset.VarSpec{
		Type: dtype.NCShort, Dims: []*dataset.Dim{time, x}, Chunks: []int64{2, 2}, Order: dtype.Big, Fill: []int16{-1},
		Codecs: []zarr.CodecSpec{{ID: "zlib", Params: []byte(`{"level": 1}`)}},
		Attrs:  []dataset.Attr{{Name: "units", Type: dtype.NCChar, Value: "K"}},
	}))
	s := must[*dataset.Var](t)(ds.Root().DefineVar(t.Context(), "s", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, MaxStrLen: 8}))
	ok(t, v.Write(t.Context(), slab(0, 0, 2, 3), []int16{1, 2, 3, 4, 5, 6}))
	ok(t, s.Write(t.Context(), s.All(), []string{"a", "", "größe"}))
	ok(t, ds.Close(t.Context()))
}

// changeDataset changes part of a chunk and an attribute, adds a variable, and consolidates
// the metadata.
func changeDataset(t *testing.T, url string, o dataset.Options) {
	t.Helper()
	o.Update = true
	ds := must[*dataset.Dataset](t)(open.Open(t.Context(), url, &o))
	v := must[*dataset.Var](t)(ds.Root().Var("g/v"))
	ok(t, v.Write(t.Context(), slab(1, 1, 2, 1), []int16{50, 80}))
	ok(t, v.SetAttr(dataset.Attr{Name: "units", Type: dtype.NCChar, Value: "degC"}))
	w := must[*dataset.Var](t)(ds.Root().DefineVar(t.Context(), "w", &dataset.VarSpec{Type: dtype.NCDouble}))
	ok(t, w.Write(t.Context(), w.All(), []float64{0.1}))
	ok(t, ds.Consolidate())
	ok(t, ds.Close(t.Context()))
}

// checkDataset checks what createDataset and changeDataset wrote.
func checkDataset(t *testing.T, url string, o dataset.Options, layout zarr.Layout) {
	t.Helper()
	ds := must[*dataset.Dataset](t)(open.Open(t.Context(), url, &o))
	defer func() { ok(t, ds.Close(context.WithoutCancel(t.Context()))) }()
	if ds.Layout() != layout || len(ds.Problems()) > 0 {
		t.Errorf("unexpected layout %s or problems %v", ds.Layout(), ds.Problems())
	}
	equal(t, ds, "g/v", []int16{1, 2, 3, 4, 50, 6, -1, 80, -1, -1, -1, -1})
	equal(t, ds, "s", []string{"a", "", "größe"})
	equal(t, ds, "w", []float64{0.1})
	v := must[*dataset.Var](t)(ds.Root().Var("g/v"))
	if a := must[dataset.Attr](t)(v.Attr("units")); a.Value != "degC" {
		t.Errorf("units: want degC, got %v", a.Value)
	}
}

func equal[E comparable](t *testing.T, ds *dataset.Dataset, path string, want []E) {
	t.Helper()
	v := must[*dataset.Var](t)(ds.Root().Var(path))
	got := make([]E, len(want))
	ok(t, v.Read(t.Context(), chunk.All(v.Shape()), got))
	if !slices.Equal(got, want) {
		t.Errorf("%s: want %v, got %v", path, want, got)
	}
}

// sameObjects compares the files of a dataset with the server's files of a key.
func sameObjects(t *testing.T, srv *s3server.Server, dir, key string) {
	t.Helper()
	local, remote := objects(t, dir), objects(t, filepath.Join(srv.Root, srv.Bucket, key))
	if a, b := slices.Sorted(maps.Keys(local)), slices.Sorted(maps.Keys(remote)); len(a) < 8 || !slices.Equal(a, b) {
		t.Fatalf("in the directory: %v\nin the bucket: %v", a, b)
	}
	for name, want := range local {
		if remote[name] != want {
			t.Errorf("%s: in the directory %q, in the bucket %q", name, want, remote[name])
		}
	}
}

func objects(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ok(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(data)
		return err
	}))
	return all
}
