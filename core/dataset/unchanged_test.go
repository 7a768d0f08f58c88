package dataset_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A reader of a dataset that is replaced in the meantime gets values or an error, and
// never the fill value for an existing chunk.
func TestReplacedWhileRead(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		for _, what := range []string{"rewritten", "root only", "array only", "gone", "untouched"} {
			b := newBuckets()
			o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
			url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "x", 4, false)
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
			write(t, v, slab(0, 2), []int32{1, 2})
			closeDataset(t, ds)

			ds = open(t, url, o)
			v = variable(t, ds, "v")
			if _, err := dataset.Get[int32](t.Context(), v, v.All()); err != nil {
				t.Fatal(err)
			}
			m := b.bucket("bkt")
			rewrite := func(key string) { // same bytes: only version and time differ
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
			_, err := dataset.Get[int32](t.Context(), v, whole)
			if (ncerr.KindOf(err) == ncerr.ErrConflict) != want || !want && err != nil {
				t.Errorf("%s, %s: absent chunks: %v", mode, what, err)
			}
			if what != "gone" {
				if _, err := dataset.Get[int32](t.Context(), v, present); err != nil {
					t.Errorf("%s, %s: read existing chunks: %v", mode, what, err)
				}
			}
			if err := ds.CheckUnchanged(t.Context()); (ncerr.KindOf(err) == ncerr.ErrConflict) != want {
				t.Errorf("%s, %s: CheckUnchanged: %v", mode, what, err)
			}
		}
	}
}

// Copying a dataset that is replaced in the meantime fails, although every chunk exists
// at all times: some are old and some are new.
func TestReplacedWhileCopied(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		b := newBuckets()
		o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true, Workers: 1}
		url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
		ds, err := several(t, url, o, false, 1, "one", "two")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		for _, replaced := range []bool{true, false} {
			src := open(t, url, o)
			dst := create(t, "mem:copy", inMemory())
			opts := &dataset.CopyOptions{Progress: func(done, total int64) {
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
			err := dataset.Copy(t.Context(), dst.Root(), src.Root(), opts)
			if (ncerr.KindOf(err) == ncerr.ErrConflict) != want || !want && err != nil {
				t.Errorf("%s: replaced %t: copy: %v", mode, want, err)
			}
			if replaced {
				t.Errorf("%s: nothing was replaced", mode)
			}
		}
	}
}

// A writer whose dataset was replaced does not overwrite the metadata of the new one.
func TestReplacedWhileWritten(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		b := newBuckets()
		o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
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
			t.Errorf("%s: want ErrConflict, got %v", mode, err)
		}
		if got := stateOf(t, url, o); got != "new" {
			t.Errorf("%s: want the new dataset, got: %s", mode, got)
		}
	}
}

// pairs creates a dataset with four values in two chunks.
func pairs(t *testing.T, url string, o *dataset.Options, value int32) *dataset.Dataset {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 4, false)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
	write(t, v, v.All(), []int32{value, value, value, value})
	return ds
}

// A writer whose dataset is replaced does not write values into the new one, whether or
// not it has written before and whether it created or opened the dataset.
func TestReplacedWhileValuesAreWritten(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr", "#mode=nczarr,consolidated"} {
		for _, who := range []string{"opened", "opened, wrote", "opened, wrote metadata", "made"} {
			for _, sel := range []chunk.Selection{slab(0, 2), slab(1, 1)} {
				o := unbuffered(&dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()})})
				url := "s3://bkt/a.zarr" + mode + "&aws.endpoint=http://127.0.0.1:9000"
				writer := pairs(t, url, o, 1)
				if who != "made" {
					closeDataset(t, writer)
					writer = update(t, url, o)
				}
				v := variable(t, writer, "v")
				switch who {
				case "opened, wrote":
					write(t, v, slab(0, 1), []int32{1})
				case "opened, wrote metadata":
					setText(t, writer.Root().SetAttr, "title", "early")
				}
				if who != "opened" {
					if err := writer.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					write(t, v, slab(0, 3), []int32{1, 1, 1})
				}
				closeDataset(t, pairs(t, url, o, 2))
				err := v.Write(t.Context(), sel, []int32{7, 7}[:sel.Len()])
				if ncerr.KindOf(err) != ncerr.ErrConflict || !strings.Contains(err.Error(), "reopen the dataset") {
					t.Errorf("%s, %s, %v: want ErrConflict, got %v", mode, who, sel, err)
				}
				if err := writer.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
					t.Errorf("%s, %s: flush: want ErrConflict, got %v", mode, who, err)
				}
				_ = writer.Abort(t.Context())
				expect(t, open(t, url, o), "v", []int32{2, 2, 2, 2})
			}
		}
	}
}

// reading is a store that calls a function after each read.
type reading struct {
	driver.Map
	after func(key string)
}

func (r reading) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := r.Map.Get(ctx, key, o, alloc)
	r.after(key)
	return data, info, err
}

// A writer of a root array that is replaced by a group does not write into the group.
func TestRootArrayReplaced(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b})}
	url := "s3://bkt/a.zarr#mode=zarr&aws.endpoint=http://127.0.0.1:9000"
	array := `{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<i4","compressor":null,"fill_value":0,"order":"C","filters":null}`
	if _, err := b.bucket("bkt").Put(t.Context(), "a.zarr/.zarray", driver.Bytes(array), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	writer := update(t, url, o)
	v := writer.Root().Vars()[0]
	closeDataset(t, pairs(t, url, o, 2))
	for range 2 {
		if err := v.Write(t.Context(), slab(0, 2), []int32{7, 7}); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("want ErrConflict, got %v", err)
		}
	}
	if err := writer.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("flush: want ErrConflict, got %v", err)
	}
	_ = writer.Abort(t.Context())
	if slices.Contains(b.names("bkt"), "a.zarr/0") {
		t.Error("a chunk of the array is in the new dataset")
	}
}

// hooked is a store that calls functions before and after its own methods. Nil
// functions are not called. A put fails without effect if refuse returns an error, and
// fails after its effect if stored does.
type hooked struct {
	driver.Map
	putting, statted func(key string)
	refuse, stored   func(key string) error
	getting, deleted func(key string) error
}

func (h *hooked) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if h.getting != nil {
		if err := h.getting(key); err != nil {
			return nil, driver.Info{}, err
		}
	}
	return h.Map.Get(ctx, key, o, alloc)
}

func (h *hooked) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	err := h.Map.Delete(ctx, key, o)
	if h.deleted != nil {
		err = errors.Join(err, h.deleted(key))
	}
	return err
}

func (h *hooked) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if h.putting != nil {
		h.putting(key)
	}
	if h.refuse != nil {
		if err := h.refuse(key); err != nil {
			return driver.Info{}, err
		}
	}
	info, err := h.Map.Put(ctx, key, body, o)
	if h.stored != nil {
		err = errors.Join(err, h.stored(key))
	}
	return info, err
}

func (h *hooked) Stat(ctx context.Context, key string) (driver.Info, error) {
	info, err := h.Map.Stat(ctx, key)
	if h.statted != nil {
		h.statted(key)
	}
	return info, err
}

// withHooks returns options that wrap the store in h.
func withHooks(o *dataset.Options, h *hooked) *dataset.Options {
	u := *o
	u.Wrap = func(m driver.Map) driver.Map { h.Map = m; return h }
	return &u
}

// inOldLayout creates a dataset in a layout whose .zgroup contains NCZarr metadata, so that
// it changes with the metadata, and opens the dataset for writing.
func inOldLayout(t *testing.T, mode string) (*dataset.Dataset, *hooked) {
	t.Helper()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()})}
	url := "s3://bkt/a.zarr#mode=" + mode + "&aws.endpoint=http://127.0.0.1:9000"
	layout := zarr.LayoutLower
	ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &layout})
	if err != nil {
		t.Fatal(err)
	}
	x := dim(t, ds.Root(), "x", 4, false)
	define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
	closeDataset(t, ds)
	h := &hooked{}
	ds = update(t, url, withHooks(o, h))
	dim(t, ds.Root(), "y", 7, false)
	return ds, h
}

// A Write that checks the anchor while a Flush of the same process writes it succeeds,
// and so do later writes.
func TestWriteDuringFlush(t *testing.T) {
	t.Parallel()
	ds, h := inOldLayout(t, "nczarr")
	v := variable(t, ds, "v")
	h.stored = func(key string) error {
		if key != ".zgroup" {
			return nil
		}
		return v.Write(t.Context(), slab(0, 2), []int32{1, 1})
	}
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.stored = func(string) error { return nil }
	dim(t, ds.Root(), "z", 7, false)
	setText(t, ds.Root().SetAttr, "title", "put before .zgroup")
	checked, flushed, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	h.putting = func(key string) {
		if key != ".zattrs" {
			return
		}
		var first atomic.Bool
		h.statted = func(string) {
			if first.CompareAndSwap(false, true) { // the Write reads the old document
				close(checked)
				<-flushed
			}
		}
		go func() { wrote <- v.Write(t.Context(), slab(2, 2), []int32{1, 1}) }()
		<-checked
	}
	err := ds.Flush(t.Context())
	close(flushed)
	if err != nil {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	closeDataset(t, ds)
}

// A Flush that failed although its put reached the store can be repeated.
func TestFlushAgain(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,consolidated"} {
		for _, failing := range []string{".zgroup", ".zmetadata"} {
			ds, h := inOldLayout(t, mode)
			h.stored = func(key string) error {
				if key == failing {
					return ncerr.ErrPermission
				}
				return nil
			}
			if err := ds.Flush(t.Context()); (err == nil) != (failing == ".zmetadata" && mode == "nczarr") {
				t.Errorf("%s, %s: the first Flush: %v", mode, failing, err)
			}
			h.stored = func(string) error { return nil }
			write(t, variable(t, ds, "v"), slab(0, 2), []int32{1, 1})
			if err := ds.Close(t.Context()); err != nil {
				t.Errorf("%s, %s: close: %v", mode, failing, err)
			}
		}
	}
}

// A Write of many chunks stops soon after the dataset was replaced.
func TestReplacedInLongWrite(t *testing.T) {
	t.Parallel()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{newBuckets()})}
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	const n = 200
	made := func(value int32) {
		ds := create(t, url, o)
		x := dim(t, ds.Root(), "x", n, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
		write(t, v, v.All(), slices.Repeat([]int32{value}, n))
		closeDataset(t, ds)
	}
	made(1)
	one := *o
	one.Workers = 1
	var once sync.Once
	h := &hooked{stored: func(string) error { once.Do(func() { made(2) }); return nil }}
	one.Wrap = func(m driver.Map) driver.Map { h.Map = m; return h }
	writer := update(t, url, &one)
	v := variable(t, writer, "v")
	if err := v.Write(t.Context(), v.All(), make([]int32, n)); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	_ = writer.Abort(t.Context())
	v = variable(t, open(t, url, o), "v")
	got, err := dataset.Get[int32](t.Context(), v, slab(n/2, n/2)) // the chunks after the first batch
	if err != nil || !slices.Equal(got, slices.Repeat([]int32{2}, n/2)) {
		t.Errorf("want only values of 2, got %v, %v", got, err)
	}
}

// A partial change of a chunk is never stored in the new dataset, regardless of when
// the replacement happens.
func TestReplacedWhileChunkIsChanged(t *testing.T) {
	t.Parallel()
	for _, sel := range []chunk.Selection{slab(1, 1), slab(2, 1)} {
		b := newBuckets()
		o := &dataset.Options{Registry: registry.New([]driver.Opener{b})}
		url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
		closeDataset(t, pairs(t, url, o, 1))
		if err := b.bucket("bkt").Delete(t.Context(), "a.zarr/v/1", nil); err != nil { // so that this chunk is absent
			t.Fatal(err)
		}
		hooked := *unbuffered(o)
		var once sync.Once
		reads := 0
		replace := func(string) {}
		hooked.Wrap = func(m driver.Map) driver.Map { return reading{m, func(key string) { replace(key) }} }
		writer := update(t, url, &hooked)
		replace = func(key string) {
			if strings.HasPrefix(key, "v/") {
				once.Do(func() { closeDataset(t, pairs(t, url, o, 2)) })
				reads++
			}
		}
		err := variable(t, writer, "v").Write(t.Context(), sel, []int32{7})
		if ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%v: want ErrConflict, got %v", sel, err)
		}
		if reads != 1 {
			t.Errorf("%v: want one read of the chunk, got %d", sel, reads)
		}
		_ = writer.Abort(t.Context())
		expect(t, open(t, url, o), "v", []int32{2, 2, 2, 2})
	}
}

// Chunks that a writer of the old dataset stores during a replacement are not in the
// new dataset.
func TestLateChunksDuringReplacement(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b})}
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	ds, err := several(t, url, o, false, 1, "both", "old")
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	m := b.bucket("bkt")
	var once sync.Once
	b.beforeChange = func(op, key string) error {
		if op != "put" || key != "a.zarr/both/.zarray" { // after all chunks
			return nil
		}
		once.Do(func() {
			for _, key := range []string{"both/0", "both/2", "both/4", "old/0"} {
				if _, err := m.Put(t.Context(), "a.zarr/"+key, driver.Bytes("\x07\x00\x00\x00"), &driver.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
			if err := m.Delete(t.Context(), "a.zarr/both/1", nil); err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	if ds, err = several(t, url, o, false, 2, "both", "new"); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	if got := stateOf(t, url, o); got != "new" {
		t.Errorf("want the new dataset, got: %s", got)
	}
	if left := b.names("bkt"); slices.Contains(left, "a.zarr/old/0") || slices.Contains(left, "a.zarr/both/4") {
		t.Errorf("late objects still exist: %q", left)
	}
}

// A reader does not mistake an append for a replacement, because the writer does not
// rewrite unchanged documents.
func TestAppendedWhileRead(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=zarr"} {
		o := inMemory()
		url := "mem:grows" + mode
		ds := create(t, url, o)
		x := dim(t, ds.Root(), "x", 0, mode != "#mode=zarr")
		define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
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
			t.Errorf("%s: CheckUnchanged: %v", mode, err)
		}
		if a, err := open(t, url, o).Root().Attr("title"); err != nil || a.Value != "longer" {
			t.Errorf("%s: want title \"longer\", got %v, %v", mode, a.Value, err)
		}
	}
}

// A document that may have been written by a failed Flush is not assumed to be
// unchanged: changing it back writes it again.
func TestChangedBackAfterFailure(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
	url := "s3://bkt/a.zarr#mode=nczarr&aws.endpoint=http://127.0.0.1:9000"
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 0, true)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	setText(t, v.SetAttr, "title", "first")
	closeDataset(t, ds)
	ds = update(t, url, o)
	v = variable(t, ds, "v")
	setText(t, v.SetAttr, "title", "second")
	write(t, v, slab(0, 1), []int32{1}) // .zarray changes as well and is written after .zattrs
	b.beforeChange = func(_, key string) error {
		if strings.HasSuffix(key, "/v/.zarray") {
			return ncerr.New(ncerr.ErrIO, "", "", io.ErrUnexpectedEOF)
		}
		return nil
	}
	if err := ds.Flush(t.Context()); err == nil {
		t.Fatal("the Flush to a failing store succeeded")
	}
	b.beforeChange = nil
	setText(t, v.SetAttr, "title", "first")
	closeDataset(t, ds)
	if a, err := variable(t, open(t, url, o), "v").Attr("title"); err != nil || a.Value != "first" {
		t.Errorf("want title \"first\", got %v, %v", a.Value, err)
	}
}

// Checking that a dataset has not been replaced sends one request, and reads of existing
// chunks send no additional ones.
func TestUnchangedCosts(t *testing.T) {
	t.Parallel()
	o := inMemory()
	stats := 0
	o.Wrap = func(m driver.Map) driver.Map { return statCounter{m, &stats} }
	ds := create(t, "mem:dense", o)
	x := dim(t, ds.Root(), "x", 2, false)
	write(t, define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}}), slab(0, 2), []int32{1, 2})
	closeDataset(t, ds)
	ds = open(t, "mem:dense", o)
	stats = 0
	expect(t, ds, "v", []int32{1, 2})
	if stats != 0 {
		t.Errorf("reading chunks: want no requests, got %d", stats)
	}
	if err := ds.CheckUnchanged(t.Context()); err != nil || stats != 1 {
		t.Errorf("CheckUnchanged: want one request, got %d, %v", stats, err)
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
