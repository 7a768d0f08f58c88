package dataset_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/registry"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// onBucket returns options for a new bucket, and a URL in it.
func onBucket(mode string) (o *dataset.Options, url string) { return inBucket(newBuckets(), mode) }

// inBucket returns options for b, and a URL in it.
func inBucket(b *buckets, mode string) (o *dataset.Options, url string) {
	return &dataset.Options{Registry: registry.New([]driver.Opener{b})}, "s3://bkt/a.zarr#mode=" + mode + "&aws.endpoint=http://127.0.0.1:9000"
}

// createGrowing creates a dataset with u(t) and w(t), which have 4 values in a chunk of 8,
// and a scalar s.
func createGrowing(t *testing.T, url string, o *dataset.Options) {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "t", 0, true)
	for _, name := range []string{"u", "w"} {
		write(t, define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{8}}), slab(0, 4), []int32{1, 2, 3, 4})
	}
	define(t, ds.Root(), "s", &dataset.VarSpec{Type: dtype.NCInt})
	closeDataset(t, ds)
}

func mustFlush(t *testing.T, ds *dataset.Dataset) {
	t.Helper()
	if err := ds.Flush(t.Context()); err != nil {
		t.Errorf("flush: %v", err)
	}
}

// expectFreshCopies fails if consolidated metadata differs from the documents.
func expectFreshCopies(t *testing.T, url string, o *dataset.Options) {
	t.Helper()
	ds, err := openURL(t.Context(), url, &dataset.Options{Registry: o.Registry, UseConsolidated: dataset.ConsolidatedVerify})
	if err != nil {
		t.Fatal(err)
	}
	if stale := ds.StaleDocuments(); len(stale) > 0 || !ds.Consolidated() {
		t.Errorf("consolidated metadata: %t, stale copies of %q", ds.Consolidated(), stale)
	}
	closeDataset(t, ds)
}

// warningsOf makes o log to the buffer that it returns.
func warningsOf(o *dataset.Options) *bytes.Buffer {
	out := new(bytes.Buffer)
	o.Log = slog.New(slog.NewTextHandler(out, nil))
	return out
}

// A change that was put although the put seemed to fail, and that is then undone, is
// undone in the store as well.
func TestUndoneAfterLostResponse(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "zarr"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		ds := update(t, url, o)
		setText(t, variable(t, ds, "u").SetAttr, "units", "m")
		closeDataset(t, ds)
		fail, unreliable := true, *o
		unreliable.Wrap = func(m driver.Map) driver.Map { return unsure{m, "u/.zattrs", &fail} }
		ds = update(t, url, &unreliable)
		u := variable(t, ds, "u")
		setText(t, u.SetAttr, "units", "km")
		setText(t, u.SetAttr, "note", "x")
		if err := ds.Flush(t.Context()); err == nil {
			t.Fatalf("%s: want the injected failure", mode)
		}
		other := update(t, url, o)
		setText(t, variable(t, other, "u").SetAttr, "other", "y")
		closeDataset(t, other)
		setText(t, u.SetAttr, "units", "m")
		if err := u.DeleteAttr("note"); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		u = variable(t, open(t, url, o), "u")
		if got := attr(t, u.Attrs(), "units"); got != "m" {
			t.Errorf("%s: want units m, got %v", mode, got)
		}
		if got := attr(t, u.Attrs(), "other"); got != "y" {
			t.Errorf("%s: want y, got %v", mode, got)
		}
		if a, err := u.Attr("note"); err == nil {
			t.Errorf("%s: the deleted attribute %v exists", mode, a)
		}
	}
}

// Two new dimensions with the same name and different lengths are a conflict. The
// variable of the first writer stays readable.
func TestBothDefineADimension(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		a, b := update(t, url, o), update(t, url, o)
		define(t, a.Root(), "p", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, a.Root(), "x", 3, false)}})
		define(t, b.Root(), "q", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, b.Root(), "x", 5, false)}})
		closeDataset(t, a)
		if err := b.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%s: want ErrConflict for x, got %v", mode, err)
		}
		if n := variable(t, open(t, url, o), "p").Shape()[0]; n != 3 {
			t.Errorf("%s: want length 3, got %d", mode, n)
		}
	}
}

// If another process has added consolidated metadata since a writer opened the dataset,
// the writer updates the copies of what it changes.
func TestConsolidatedByOther(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr,v3", "v3", "nczarr", "zarr"} {
		for _, again := range []bool{false, true} {
			for _, bucket := range []bool{false, true} {
				o, url := onBucket(mode)
				if !bucket {
					o, url = localOptions(), filepath.Join(t.TempDir(), "a.zarr")+"#mode="+mode
				}
				createGrowing(t, url, o)
				a, b := update(t, url, o), update(t, url, o)
				if again {
					setText(t, variable(t, a, "u").SetAttr, "first", "m")
					mustFlush(t, a)
				}
				if err := b.Consolidate(); err != nil {
					t.Fatal(err)
				}
				closeDataset(t, b)
				setText(t, variable(t, a, "u").SetAttr, "units", "m")
				closeDataset(t, a)
				expectFreshCopies(t, url, o)
			}
		}
	}
}

// New consolidated metadata contains the nodes that other processes have added since the
// dataset was opened.
func TestConsolidateNodesOfOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr,v3", "v3", "nczarr", "zarr"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		a, b := update(t, url, o), update(t, url, o)
		define(t, a.Root(), "z", &dataset.VarSpec{Type: dtype.NCInt})
		closeDataset(t, a)
		if err := b.Consolidate(); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, b)
		expectFreshCopies(t, url, o)
		ds, err := openURL(t.Context(), url, &dataset.Options{Registry: o.Registry, UseConsolidated: dataset.ConsolidatedTrust})
		if err != nil {
			t.Fatal(err)
		}
		variable(t, ds, "z")
	}
}

// After a conflict in the document of the root was solved, consolidated metadata has
// copies of all documents that were written before.
func TestConflictInRoot(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr,v3,consolidated", "v3,consolidated", "nczarr,consolidated", "zarr,consolidated"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		a, b := update(t, url, o), update(t, url, o)
		setText(t, a.Root().SetAttr, "title", "a")
		closeDataset(t, a)
		setText(t, b.Root().SetAttr, "title", "b")
		setText(t, variable(t, b, "u").SetAttr, "units", "m")
		if err := b.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%s: want ErrConflict, got %v", mode, err)
		}
		setText(t, b.Root().SetAttr, "title", "a")
		closeDataset(t, b)
		expectFreshCopies(t, url, o)
	}
}

// On a server that refuses conditional puts, changes of other processes are still found
// and merged.
func TestMergedWithoutConditions(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "zarr", "nczarr,v3"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		o.Wrap = func(m driver.Map) driver.Map { return pretended{m} }
		a, b := update(t, url, o), update(t, url, o)
		for name, ds := range map[string]*dataset.Dataset{"a": a, "b": b} {
			setText(t, variable(t, ds, "u").SetAttr, name, name)
		}
		closeDataset(t, a)
		closeDataset(t, b)
		u := variable(t, open(t, url, o), "u")
		for _, name := range []string{"a", "b"} {
			if got := attr(t, u.Attrs(), name); got != name {
				t.Errorf("%s: want %s, got %v", mode, name, got)
			}
		}
	}
}

// The process that has created a dataset can go on after another one has changed the
// document of the root.
func TestCreatorContinues(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "zarr", "nczarr,v3", "v3"} {
		o, url := onBucket(mode)
		a := create(t, url, o)
		define(t, a.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
		mustFlush(t, a)
		b := update(t, url, o)
		setText(t, b.Root().SetAttr, "title", "x")
		closeDataset(t, b)
		setText(t, a.Root().SetAttr, "other", "x")
		if err := a.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// If the lengths of another writer cannot be read in a Flush, the next Flush adopts them.
func TestAdoptedAfterFailure(t *testing.T) {
	t.Parallel()
	o, url := onBucket("nczarr")
	createGrowing(t, url, o)
	a := update(t, url, o)
	var gets atomic.Int64
	unreliable := *o
	unreliable.Wrap = func(m driver.Map) driver.Map { return failingGet{m, "w/.zarray", &gets} }
	b := update(t, url, &unreliable)
	write(t, variable(t, a, "u"), slab(4, 4), []int32{5, 6, 7, 8})
	closeDataset(t, a)
	setText(t, variable(t, b, "u").SetAttr, "note", "x")
	write(t, variable(t, b, "u"), slab(4, 1), []int32{9})
	gets.Store(2) // the second one follows the put
	if err := b.Flush(t.Context()); err == nil {
		t.Fatal("want the injected failure")
	}
	mustFlush(t, b)
	expect(t, b, "u", []int32{1, 2, 3, 4, 9, 6, 7, 8})
	closeDataset(t, b)
}

// failingGet is a store in which one Get of an object fails.
type failingGet struct {
	driver.Map
	key string
	in  *atomic.Int64 // number of the Get
}

func (f failingGet) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if key == f.key && f.in.Add(-1) == 0 {
		return nil, driver.Info{}, errCut
	}
	return f.Map.Get(ctx, key, o, alloc)
}

// After a Flush that has merged documents, a writer sees the attributes of the other one, and
// can change them without a conflict. It does not lose the nodes that the other one has defined.
func TestMergedAttributesAreSeen(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "zarr", "nczarr,v3", "v3", "nczarr,v3,consolidated"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		a, b := update(t, url, o), update(t, url, o)
		setText(t, a.Root().SetAttr, "title", "old")
		setText(t, variable(t, a, "u").SetAttr, "units", "m")
		define(t, a.Root(), "z", &dataset.VarSpec{Type: dtype.NCInt})
		mustFlush(t, a)
		setText(t, b.Root().SetAttr, "other", "x")
		setText(t, variable(t, b, "u").SetAttr, "other", "x")
		mustFlush(t, b)
		check := func(ds *dataset.Dataset, title, units string) {
			t.Helper()
			for name, list := range map[string][]dataset.Attr{title: ds.Root().Attrs(), units: variable(t, ds, "u").Attrs()} {
				key := "title"
				if name == units {
					key = "units"
				}
				if got := attr(t, list, key); got != name {
					t.Errorf("%s: want %s %q, got %v", mode, key, name, got)
				}
				if got := attr(t, list, "other"); got != "x" {
					t.Errorf("%s: want other x, got %v", mode, got)
				}
			}
		}
		check(b, "old", "m")
		setText(t, b.Root().SetAttr, "title", "new")
		setText(t, variable(t, b, "u").SetAttr, "units", "km")
		mustFlush(t, b)
		closeDataset(t, b)
		ds := open(t, url, o)
		check(ds, "new", "km")
		variable(t, ds, "z")
		if err := a.Root().DeleteAttr("title"); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict { // a has not seen the new title
			t.Errorf("%s: want ErrConflict, got %v", mode, err)
		}
	}
}

// After a Flush that has merged the document of an array, a writer sees the elements with which
// the other one has extended the array up to the length of its dimension.
func TestMergedShapeIsSeen(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3"} {
		o, url := onBucket(mode)
		createGrowing(t, url, o)
		ds := update(t, url, o)
		write(t, variable(t, ds, "w"), slab(4, 4), []int32{5, 6, 7, 8})
		closeDataset(t, ds)
		a, b := update(t, url, o), update(t, url, o)
		f := int32(-2147483647)
		expect(t, b, "u", []int32{1, 2, 3, 4, f, f, f, f})
		write(t, variable(t, a, "u"), slab(4, 4), []int32{5, 6, 7, 8})
		closeDataset(t, a)
		setText(t, variable(t, b, "u").SetAttr, "units", "m")
		write(t, variable(t, b, "u"), slab(5, 1), []int32{66})
		mustFlush(t, b)
		expect(t, b, "u", []int32{1, 2, 3, 4, 5, 66, 7, 8})
		closeDataset(t, b)
		expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 66, 7, 8})
	}
}
