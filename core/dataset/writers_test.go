package dataset_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// noConditionalPut is a store without conditional puts.
type noConditionalPut struct{ driver.Map }

func (u noConditionalPut) Capabilities() driver.Capabilities {
	c := u.Map.Capabilities()
	c.IfMatch, c.IfAbsent = false, false
	return c
}

// pretended is a store that declares conditional puts although its server refuses them.
type pretended struct{ driver.Map }

func (p pretended) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if o.IfAbsent || o.IfMatch != "" {
		return driver.Info{}, ncerr.ErrUnsupported
	}
	return p.Map.Put(ctx, key, body, o)
}

// withTwoWriters runs f with a dataset that two writers have opened, on stores with and
// without conditional puts, in each of the given modes. The dataset has the variables
// u(t) and w(t) with 4 values, and a scalar.
func withTwoWriters(t *testing.T, modes []string, f func(t *testing.T, what string, url string, o *dataset.Options, a, b *dataset.Dataset)) {
	t.Helper()
	for _, mode := range modes {
		for _, conditions := range []bool{true, false} {
			o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
			what := mode
			if !conditions {
				what += ", without conditions"
				o.Wrap = func(m driver.Map) driver.Map { return noConditionalPut{m} }
			}
			url := "s3://bkt/a.zarr#mode=" + mode + "&aws.endpoint=http://127.0.0.1:9000"
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "t", 0, true)
			for _, name := range []string{"u", "w"} {
				write(t, define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}}), slab(0, 4), []int32{1, 2, 3, 4})
			}
			define(t, ds.Root(), "s", &dataset.VarSpec{Type: dtype.NCInt}) // a document that no writer changes
			closeDataset(t, ds)
			f(t, what, url, o, update(t, url, o), update(t, url, o))
		}
	}
}

// A writer that is not aware of data appended by another one shortens nothing and
// overwrites only the elements that it writes.
func TestUnawareAppend(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "nczarr,consolidated", "nczarr,v3", "nczarr,v3,consolidated"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		write(t, variable(t, a, "u"), slab(4, 4), []int32{5, 6, 7, 8})
		closeDataset(t, a)
		write(t, variable(t, b, "w"), slab(4, 1), []int32{9})
		if err := b.Flush(t.Context()); err != nil {
			t.Fatalf("%s: flush: %v", what, err)
		}
		if n := variable(t, b, "u").Shape()[0]; n != 8 {
			t.Errorf("%s: want length 8 after a Flush, got %d", what, n)
		}
		f := int32(-2147483647)
		expect(t, b, "u", []int32{1, 2, 3, 4, 5, 6, 7, 8})
		expect(t, b, "w", []int32{1, 2, 3, 4, 9, f, f, f})
		closeDataset(t, b)
		expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 6, 7, 8})
		expect(t, open(t, url, o), "w", []int32{1, 2, 3, 4, 9, f, f, f})
		again := update(t, url, o)
		for i := range 2 { // a writer can continue after its own Flush
			write(t, variable(t, again, "w"), slab(4+int64(i), 1), []int32{9})
			if err := again.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		closeDataset(t, again)
		expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 6, 7, 8})
		ds := open(t, url, o)
		got, err := dataset.Get[int32](t.Context(), variable(t, ds, "w"), slab(0, 6))
		if err != nil || !slices.Equal(got, []int32{1, 2, 3, 4, 9, 9}) {
			t.Errorf("%s: want [1 2 3 4 9 9], got %v, %v", what, got, err)
		}
	})
}

// The attributes of two writers are merged. If both have changed the same attribute
// to different values, Flush fails each time, names the document and the attribute, and
// writes everything else.
func TestConflictingMetadata(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr", "nczarr,consolidated", "nczarr,v3", "v3", "nczarr,v3,consolidated"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		for _, ds := range []*dataset.Dataset{a, b} {
			name := map[*dataset.Dataset]string{a: "a", b: "b"}[ds]
			setText(t, ds.Root().SetAttr, "of "+name, name)
			setText(t, variable(t, ds, "w").SetAttr, "both", "same")
			setText(t, variable(t, ds, "u").SetAttr, "units", "m of "+name)
		}
		closeDataset(t, a)
		for range 2 {
			err := b.Flush(t.Context())
			if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), `"/u/`) || !strings.Contains(err.Error(), `"units"`) {
				t.Errorf("%s: want ErrConflict for units of u, got %v", what, err)
			}
		}
		check := func(units string) {
			t.Helper()
			ds := open(t, url, o)
			if got := attr(t, variable(t, ds, "u").Attrs(), "units"); got != units {
				t.Errorf("%s: want units %q, got %v", what, units, got)
			}
			if x, y := attr(t, ds.Root().Attrs(), "of a"), attr(t, ds.Root().Attrs(), "of b"); x != "a" || y != "b" {
				t.Errorf("%s: want a and b, got %v and %v", what, x, y)
			}
			checked, err := openURL(t.Context(), url, &dataset.Options{Registry: o.Registry, UseConsolidated: dataset.ConsolidatedVerify})
			if err != nil {
				t.Fatal(err)
			}
			if stale := checked.StaleDocuments(); len(stale) > 0 {
				t.Errorf("%s: stale copies of %q", what, stale)
			}
		}
		check("m of a")
		setText(t, variable(t, b, "u").SetAttr, "units", "m of a")
		closeDataset(t, b)
		check("m of a")
	})
}

// Two writers of different documents do not disturb each other, unless consolidated
// metadata repeats the documents.
func TestIndependentDocuments(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		for range 2 {
			setText(t, variable(t, a, "u").SetAttr, "units", "m")
			setText(t, variable(t, b, "w").SetAttr, "units", "s")
			for _, ds := range []*dataset.Dataset{a, b} {
				if err := ds.Flush(t.Context()); err != nil {
					t.Fatalf("%s: flush: %v", what, err)
				}
			}
		}
		closeDataset(t, a)
		closeDataset(t, b)
		ds := open(t, url, o)
		if u, w := attr(t, variable(t, ds, "u").Attrs(), "units"), attr(t, variable(t, ds, "w").Attrs(), "units"); u != "m" || w != "s" {
			t.Errorf("%s: want units m and s, got %v and %v", what, u, w)
		}
	})
}

// If another process has added consolidated metadata since a writer opened the dataset,
// the next Flush of the writer updates it. If another process has removed it, the writer does
// not write it again.
func TestConsolidatedMeanwhile(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		if err := b.Consolidate(); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, b)
		setText(t, variable(t, a, "u").SetAttr, "units", "m")
		closeDataset(t, a)
		checked, err := openURL(t.Context(), url, &dataset.Options{Registry: o.Registry, UseConsolidated: dataset.ConsolidatedTrust})
		if err != nil {
			t.Fatal(err)
		}
		if got := attr(t, variable(t, checked, "u").Attrs(), "units"); got != "m" || !checked.Consolidated() {
			t.Errorf("%s: after the addition: want units m in consolidated metadata, got %v", what, got)
		}
		a, b = update(t, url, o), update(t, url, o)
		if err := b.RemoveConsolidated(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, b)
		setText(t, variable(t, a, "u").SetAttr, "units", "m")
		closeDataset(t, a)
		m, err := storeURL(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		if there, err := m.Exists(t.Context(), ".zmetadata"); err != nil || there {
			t.Errorf("%s: after the removal: .zmetadata exists: %t, %v", what, there, err)
		}
	})
}

// Metadata can be changed on a server that refuses conditional puts.
func TestConditionsRefused(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr", "nczarr,consolidated"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		closeDataset(t, a)
		closeDataset(t, b)
		o.Wrap = func(m driver.Map) driver.Map { return pretended{m} }
		for _, text := range []string{"m", "km"} {
			ds := update(t, url, o)
			setText(t, variable(t, ds, "u").SetAttr, "units", text)
			setText(t, ds.Root().SetAttr, "title", text)
			closeDataset(t, ds)
			if got := attr(t, variable(t, open(t, url, o), "u").Attrs(), "units"); got != text {
				t.Errorf("%s: unexpected units %v", what, got)
			}
		}
	})
}

// unsure is a store that reports a failure once although the call succeeded.
type unsure struct {
	driver.Map
	key  string
	fail *bool
}

var errCut = errors.New("the connection was cut")

func (u unsure) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	info, err := u.Map.Put(ctx, key, body, o)
	if err == nil && *u.fail && key == u.key {
		*u.fail = false
		return driver.Info{}, errCut
	}
	return info, err
}

// If a put of a document succeeds but seems to fail, the writer can write the document
// again.
func TestPutWithLostResponse(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *dataset.Options, a, b *dataset.Dataset) {
		t.Helper()
		closeDataset(t, b)
		closeDataset(t, a)
		for _, text := range []string{"m", "km"} {
			fail := true
			u := *o
			inner := o.Wrap
			u.Wrap = func(m driver.Map) driver.Map {
				if inner != nil {
					m = inner(m)
				}
				return unsure{m, "u/.zattrs", &fail}
			}
			ds := update(t, url, &u)
			setText(t, variable(t, ds, "u").SetAttr, "units", text)
			if err := ds.Flush(t.Context()); !errors.Is(err, errCut) {
				t.Fatalf("%s: want a cut connection, got %v", what, err)
			}
			if text == "km" { // put another text the second time
				setText(t, variable(t, ds, "u").SetAttr, "units", "miles")
			}
			if err := ds.Flush(t.Context()); err != nil {
				t.Errorf("%s: %s: flush: %v", what, text, err)
			}
			closeDataset(t, ds)
		}
	})
}
