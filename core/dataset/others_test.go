package dataset_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// replaceIn replaces a text in an object, as other software might.
func replaceIn(t *testing.T, m interface {
	ReadAll(ctx context.Context, key string, limit int64) ([]byte, driver.Info, error)
	Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error)
}, key, before, after string,
) {
	t.Helper()
	text, _, err := m.ReadAll(t.Context(), key, 1<<20)
	if err == nil && !strings.Contains(string(text), before) {
		t.Fatalf("%s does not contain %s: %s", key, before, text)
	}
	if err == nil {
		_, err = m.Put(t.Context(), key, driver.Bytes([]byte(strings.Replace(string(text), before, after, 1))), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A writer that removes what its failed write has left does not remove chunks with which
// another writer has extended another variable.
func TestLeftoversOfOthersStay(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3"} {
		o, url := localOptions(), filepath.Join(t.TempDir(), "a.zarr")+"#mode="+mode
		ds := create(t, url, o)
		for _, name := range []string{"g", "h"} {
			g, err := ds.Root().DefineGroup(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, define(t, g, "u", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, g, "t", 0, true)}, Chunks: []int64{2}}), slab(0, 4), []int32{1, 2, 3, 4})
		}
		closeDataset(t, ds)
		fail := false
		a := update(t, url, withHooks(o, &hooked{refuse: func(key string) error {
			if fail && strings.HasPrefix(key, "h/u/") {
				return errCut
			}
			return nil
		}}))
		b := update(t, url, o)
		write(t, variable(t, b, "g/u"), slab(4, 4), []int32{5, 6, 7, 8})
		closeDataset(t, b)
		fail = true
		if err := variable(t, a, "h/u").Write(t.Context(), slab(4, 2), []int32{5, 6}); err == nil {
			t.Errorf("%s: a write that cannot store its chunk succeeds", mode)
		}
		fail = false
		write(t, variable(t, a, "h/u"), slab(4, 2), []int32{5, 6})
		closeDataset(t, a)
		ds = open(t, url, o)
		expect(t, ds, "g/u", []int32{1, 2, 3, 4, 5, 6, 7, 8})
		expect(t, ds, "h/u", []int32{1, 2, 3, 4, 5, 6})
	}
}

// A writer does not remove chunks beyond the shape of an array that is shorter than its
// dimension if another writer has extended the array since. A writer that removes the
// leftovers of a dead one does not either, whether or not it has flushed before.
func TestExtendedSinceIsNotLeftover(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3"} {
		for what, try := range map[string]func(e *dataset.Dataset) error{
			"write": func(e *dataset.Dataset) error {
				return variable(t, e, "w").Write(t.Context(), slab(0, 1), []int32{1})
			},
			"clear": func(e *dataset.Dataset) error { return clearGrowth(t, e) },
			"flush and clear": func(e *dataset.Dataset) error {
				setText(t, variable(t, e, "u").SetAttr, "units", "m")
				if err := e.Flush(t.Context()); err != nil {
					t.Errorf("%s: %v", mode, err)
				}
				return clearGrowth(t, e)
			},
		} {
			o, url := localOptions(), filepath.Join(t.TempDir(), "a.zarr")+"#mode="+mode
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "t", 0, true)
			for _, name := range []string{"u", "w"} {
				write(t, define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}}), slab(0, 4), []int32{1, 2, 3, 4})
			}
			doc := ".zattrs"
			if mode == "nczarr,v3" {
				doc = "zarr.json"
			}
			closeDataset(t, ds)
			replaceIn(t, update(t, url, o).Map(), doc, `"size": 4`, `"size": 8`)
			c, e := update(t, url, o), update(t, url, o)
			write(t, variable(t, c, "w"), slab(4, 4), []int32{5, 6, 7, 8})
			closeDataset(t, c)
			if err := try(e); (ncerr.KindOf(err) == ncerr.ErrConflict) != (what != "write") {
				t.Errorf("%s, %s: got %v", mode, what, err)
			}
			_ = e.Abort(t.Context())
			expect(t, open(t, url, o), "w", []int32{1, 2, 3, 4, 5, 6, 7, 8})
		}
	}
}

// A writer whose put of the document that identifies the dataset failed, or seemed to,
// does not overwrite the changes of another writer.
func TestIdentityIsNotOverwritten(t *testing.T) {
	t.Parallel()
	const url = "s3://bkt/a.zarr#mode=nczarr,v3&aws.endpoint=http://127.0.0.1:9000"
	for _, stored := range []bool{false, true} {
		for _, other := range []bool{false, true} {
			o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
			closeDataset(t, create(t, url, o))
			b, once := update(t, url, o), true
			fail := func(key string) error {
				if once && key == "zarr.json" {
					once = false
					return errCut
				}
				return nil
			}
			h := &hooked{refuse: fail}
			if stored {
				h = &hooked{stored: fail}
			}
			a := update(t, url, withHooks(o, h))
			setText(t, a.Root().SetAttr, "ofa", "1")
			if err := a.Flush(t.Context()); err == nil {
				t.Error("a Flush whose put fails succeeds")
			}
			if other {
				replaceIn(t, b.Map(), "zarr.json", `"attributes": {`, `"attributes": {"ofb": 1, `)
			}
			if err := a.Flush(t.Context()); (ncerr.KindOf(err) == ncerr.ErrConflict) != other || !other && err != nil {
				t.Errorf("stored %t, changed by another %t: got %v", stored, other, err)
			}
			_ = a.Abort(t.Context())
			name := "ofa"
			if other {
				name = "ofb"
			}
			_ = attr(t, open(t, url, o).Root().Attrs(), name)
		}
	}
}

// If another writer changes the document that identifies the dataset between a put of
// this writer and the request for its time, this writer detects the change.
func TestIdentityIsChangedAfterPut(t *testing.T) {
	t.Parallel()
	const url = "s3://bkt/a.zarr#mode=nczarr,v3&aws.endpoint=http://127.0.0.1:9000"
	o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()}), SingleWriter: true}
	closeDataset(t, create(t, url, o))
	b, once := update(t, url, o), true
	a := update(t, url, withHooks(o, &hooked{stored: func(key string) error {
		if once && key == "zarr.json" {
			once = false
			replaceIn(t, b.Map(), key, `"attributes": {`, `"attributes": {"ofb": 1, `)
		}
		return nil
	}}))
	setText(t, a.Root().SetAttr, "ofa", "1")
	if err := a.Flush(t.Context()); err != nil || once {
		t.Fatalf("the other change was made: %t, %v", !once, err)
	}
	setText(t, a.Root().SetAttr, "ofa", "2")
	if err := a.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	_ = a.Abort(t.Context())
	_ = attr(t, open(t, url, o).Root().Attrs(), "ofb")
}

// If two writers create the same document, on a store without conditional puts that no other
// process writes to at the same moment, the document has the members of both.
func TestBothCreateADocument(t *testing.T) {
	t.Parallel()
	o := inMemory()
	closeDataset(t, create(t, "mem:both#mode=zarr", o))
	ds := update(t, "mem:both#mode=zarr", o)
	if there, err := ds.Map().Exists(t.Context(), ".zattrs"); err != nil {
		t.Fatal(err)
	} else if there {
		if err := ds.Map().Delete(t.Context(), ".zattrs"); err != nil {
			t.Fatal(err)
		}
	}
	o.Wrap = func(m driver.Map) driver.Map { return noConditionalPut{m} }
	a, b := update(t, "mem:both#mode=zarr", o), update(t, "mem:both#mode=zarr", o)
	setText(t, a.Root().SetAttr, "ofa", "1")
	setText(t, b.Root().SetAttr, "ofb", "1")
	closeDataset(t, a)
	closeDataset(t, b)
	for _, name := range []string{"ofa", "ofb"} {
		_ = attr(t, open(t, "mem:both#mode=zarr", o).Root().Attrs(), name)
	}
}
