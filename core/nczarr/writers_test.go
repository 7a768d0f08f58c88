package nczarr_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
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
// u(t) and w(t) with 4 values.
func withTwoWriters(t *testing.T, modes []string, f func(t *testing.T, what string, url string, o *nczarr.Options, a, b *nczarr.Dataset)) {
	t.Helper()
	for _, mode := range modes {
		for _, conditions := range []bool{true, false} {
			o := &nczarr.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
			what := mode
			if !conditions {
				what += ", without conditions"
				o.Wrap = func(m driver.Map) driver.Map { return noConditionalPut{m} }
			}
			url := "s3://bkt/a.zarr#mode=" + mode + "&aws.endpoint=http://127.0.0.1:9000"
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "t", 0, true)
			for _, name := range []string{"u", "w"} {
				write(t, define(t, ds.Root(), name, &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{2}}), slab(0, 4), []int32{1, 2, 3, 4})
			}
			closeDataset(t, ds)
			f(t, what, url, o, update(t, url, o), update(t, url, o))
		}
	}
}

// A writer that is not aware of data appended by another one neither overwrites it nor
// shortens the dimension.
func TestUnawareAppend(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "nczarr,consolidated"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
		t.Helper()
		write(t, variable(t, a, "u"), slab(4, 4), []int32{5, 6, 7, 8})
		closeDataset(t, a)
		for _, name := range []string{"u", "w"} {
			err := variable(t, b, name).Write(t.Context(), slab(4, 1), []int32{9})
			if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "reopen the dataset") {
				t.Errorf("%s: extending %s: want ErrConflict, got %v", what, name, err)
			}
		}
		closeDataset(t, b)
		expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 6, 7, 8})
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
		got, err := nczarr.Get[int32](t.Context(), variable(t, ds, "w"), slab(0, 6))
		if err != nil || !slices.Equal(got, []int32{1, 2, 3, 4, 9, 9}) {
			t.Errorf("%s: want [1 2 3 4 9 9], got %v, %v", what, got, err)
		}
	})
}

// A writer does not overwrite a document that another writer has changed. Its Flush fails
// instead and names the document. The changes of the other writer are kept, and other
// documents are written.
func TestConflictingMetadata(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr", "nczarr,consolidated"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
		t.Helper()
		setText(t, a.Root().SetAttr, "title", "of a")
		setText(t, variable(t, a, "u").SetAttr, "units", "m")
		closeDataset(t, a)
		setText(t, b.Root().SetAttr, "history", "of b")
		setText(t, variable(t, b, "w").SetAttr, "units", "s") // in another document
		err := b.Flush(t.Context())
		key := map[bool]string{false: `"/.zattrs"`, true: `"/.zmetadata"`}[strings.Contains(what, "consolidated")]
		if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "another process has changed the document") || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: want ErrConflict for %s, got %v", what, key, err)
		}
		_ = b.Abort(t.Context())
		ds := open(t, url, o)
		if got := attr(t, ds.Root().Attrs(), "title"); got != "of a" {
			t.Errorf("%s: want the title of the first writer, got %v", what, got)
		}
		if got := attr(t, variable(t, ds, "u").Attrs(), "units"); got != "m" {
			t.Errorf("%s: want units m, got %v", what, got)
		}
		if strings.Contains(what, "consolidated") { // the consolidated document was not written
			return
		}
		if got := attr(t, variable(t, ds, "w").Attrs(), "units"); got != "s" {
			t.Errorf("%s: want units s, got %v", what, got)
		}
	})
}

// Two writers of different documents do not disturb each other, unless consolidated
// metadata repeats the documents.
func TestIndependentDocuments(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
		t.Helper()
		for range 2 {
			setText(t, variable(t, a, "u").SetAttr, "units", "m")
			setText(t, variable(t, b, "w").SetAttr, "units", "s")
			for _, ds := range []*nczarr.Dataset{a, b} {
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
// the next Flush of the writer fails. If another process has removed it, the writer does
// not write it again.
func TestConsolidatedMeanwhile(t *testing.T) {
	t.Parallel()
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
		t.Helper()
		if err := b.Consolidate(); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, b)
		setText(t, variable(t, a, "u").SetAttr, "units", "m")
		if err := a.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), ".zmetadata") {
			t.Errorf("%s: after the addition: want ErrConflict, got %v", what, err)
		}
		_ = a.Abort(t.Context())
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
	withTwoWriters(t, []string{"nczarr", "zarr", "nczarr,consolidated"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
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
	withTwoWriters(t, []string{"nczarr", "zarr"}, func(t *testing.T, what, url string, o *nczarr.Options, a, b *nczarr.Dataset) {
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
