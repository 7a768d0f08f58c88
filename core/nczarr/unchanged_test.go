package nczarr_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A reader of a dataset that is replaced meanwhile gets values or an error, and
// never fill for a chunk that exists.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		for _, what := range []string{"rewritten", "root only", "array only", "gone", "untouched"} {
			b := newBuckets()
			o := &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{b}), SingleWriter: true}
			url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "x", 4, false)
			v := define(t, ds.Root(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{1}})
			write(t, v, slab(0, 2), []int32{1, 2})
			closeDataset(t, ds)

			ds = open(t, url, o)
			v = variable(t, ds, "v")
			if _, err := nczarr.Get[int32](t.Context(), v, v.All()); err != nil {
				t.Fatal(err)
			}
			m := b.bucket("bkt")
			rewrite := func(key string) { // the same bytes: only version and time tell
				text, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
				if ncerr.KindOf(err) == ncerr.ErrNotFound {
					return
				}
				if err == nil {
					_, err = m.Put(t.Context(), key, driver.Bytes(text), &driver.PutOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range b.names("bkt") {
				root := !strings.Contains(strings.TrimPrefix(key, "a.zarr/"), "/")
				switch {
				case what == "rewritten", what == "root only" && root, what == "array only" && (strings.HasSuffix(key, ".zarray") || strings.HasSuffix(key, ".zmetadata")):
					rewrite(key)
				case what == "gone":
					if err := m.Delete(t.Context(), key, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := what != "untouched"
			whole, present := slab(0, 4), slab(0, 2)
			_, err := nczarr.Get[int32](t.Context(), v, whole)
			if (ncerr.KindOf(err) == ncerr.ErrConflict) != want || !want && err != nil {
				t.Errorf("%s, %s: absent chunks: %v", mode, what, err)
			}
			if what != "gone" {
				if _, err := nczarr.Get[int32](t.Context(), v, present); err != nil {
					t.Errorf("%s, %s: chunks that are there: %v", mode, what, err)
				}
			}
			if err := ds.CheckUnchanged(t.Context()); (ncerr.KindOf(err) == ncerr.ErrConflict) != want {
				t.Errorf("%s, %s: at the end: %v", mode, what, err)
			}
		}
	}
}

// A dataset that is replaced while it is copied gives an error, although every
// chunk is there at all times: some are old, and some are new.
func TestReplacedWhileCopied(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		b := newBuckets()
		o := &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{b}), SingleWriter: true, Workers: 1}
		url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
		ds, err := several(t, url, o, false, 1, "one", "two")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		for _, replaced := range []bool{true, false} {
			src := open(t, url, o)
			dst := create(t, "mem:copy", inMemory())
			opts := &nczarr.CopyOptions{Progress: func(done, total int64) {
				if replaced && 0 < done && done < total {
					replaced = false
					ds, err := several(t, url, o, false, 2, "one", "two")
					if err != nil {
						t.Fatal(err)
					}
					closeDataset(t, ds)
				}
			}}
			want := replaced
			err := nczarr.Copy(t.Context(), dst.Root(), src.Root(), opts)
			if (ncerr.KindOf(err) == ncerr.ErrConflict) != want || !want && err != nil {
				t.Errorf("%s: replaced %t: %v", mode, want, err)
			}
			if replaced {
				t.Errorf("%s: nothing was replaced", mode)
			}
		}
	}
}

// Who writes to a dataset that was replaced since does not write its metadata over
// that of the new one.
func TestReplacedWhileWritten(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		b := newBuckets()
		o := &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{b}), SingleWriter: true}
		url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
		ds, err := several(t, url, o, false, 1, "both", "old")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		writer := update(t, url, o)
		if ds, err = several(t, url, o, false, 2, "both", "new"); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		setText(t, writer.Root().SetAttr, "title", "late")
		if err := writer.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%s: %v", mode, err)
		}
		if got := stateOf(t, url, o); got != "new" {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

// A writer of values alone learns from Flush that the dataset was replaced.
func TestReplacedWhileValuesAreWritten(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{b}), SingleWriter: true}
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	ds, err := several(t, url, o, false, 1, "both")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	writer := update(t, url, o)
	if ds, err = several(t, url, o, false, 2, "both"); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	v, err := writer.Root().Var("both")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Write(t.Context(), v.All(), []int32{1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	_ = writer.Abort(t.Context())
}

// What a writer adds to a dataset does not look like another dataset to those
// who read: documents that do not change are not written.
func TestAppendedWhileRead(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr"} {
		o := inMemory()
		url := "mem:grows" + mode
		ds := create(t, url, o)
		x := dim(t, ds.Root(), "x", 0, mode != "#mode=zarr")
		define(t, ds.Root(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{1}})
		closeDataset(t, ds)
		reader := open(t, url, o)
		u := *o
		u.Update = true
		writer := open(t, url, &u)
		setText(t, writer.Root().SetAttr, "title", "longer")
		if mode != "#mode=zarr" {
			write(t, variable(t, writer, "v"), slab(0, 1), []int32{1})
		}
		closeDataset(t, writer)
		if err := reader.CheckUnchanged(t.Context()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if a, err := open(t, url, o).Root().Attr("title"); err != nil || a.Value != "longer" {
			t.Errorf("%s: %v, %v", mode, a.Value, err)
		}
	}
}

// A document that may have been written although its Flush failed is not taken
// for what it was before: changing it back writes it again.
func TestChangedBackAfterFailure(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &nczarr.Options{Registry: nczarr.NewRegistry([]driver.Opener{b}), SingleWriter: true}
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{1}})
	setText(t, v.SetAttr, "title", "first")
	closeDataset(t, ds)
	ds = update(t, url, o)
	v = variable(t, ds, "v")
	setText(t, v.SetAttr, "title", "second")
	write(t, v, slab(0, 1), []int32{1}) // .zarray, which is written after .zattrs, changes too
	b.calls = func(_, key string) error {
		if strings.HasSuffix(key, "/v/.zarray") {
			return ncerr.New(ncerr.ErrIO, "", "", io.ErrUnexpectedEOF)
		}
		return nil
	}
	if err := ds.Flush(t.Context()); err == nil {
		t.Fatal("the store did not fail")
	}
	b.calls = nil
	setText(t, v.SetAttr, "title", "first")
	closeDataset(t, ds)
	if a, err := variable(t, open(t, url, o), "v").Attr("title"); err != nil || a.Value != "first" {
		t.Errorf("%v, %v", a.Value, err)
	}
}

// That a dataset has not been replaced is known after one request, and no read
// of chunks that are there costs more.
func TestUnchangedCosts(t *testing.T) {
	t.Parallel()
	o := inMemory()
	stats := 0
	o.Wrap = func(m driver.Map) driver.Map { return statCounter{m, &stats} }
	ds := create(t, "mem:dense", o)
	x := dim(t, ds.Root(), "x", 2, false)
	write(t, define(t, ds.Root(), "v", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{1}}), slab(0, 2), []int32{1, 2})
	closeDataset(t, ds)
	ds = open(t, "mem:dense", o)
	stats = 0
	expect(t, ds, "v", []int32{1, 2})
	if stats != 0 {
		t.Errorf("reading chunks: %d requests", stats)
	}
	if err := ds.CheckUnchanged(t.Context()); err != nil || stats != 1 {
		t.Errorf("at the end: %d requests, %v", stats, err)
	}
}

// statCounter counts calls of Stat.
type statCounter struct {
	driver.Map
	n *int
}

func (s statCounter) Stat(ctx context.Context, key string) (driver.Info, error) {
	*s.n++
	return s.Map.Stat(ctx, key)
}
