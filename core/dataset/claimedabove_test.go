package dataset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// bucketOptions returns the options for buckets.
func bucketOptions(b *buckets) *dataset.Options {
	return &dataset.Options{Registry: registry.New([]driver.Opener{b}), SingleWriter: true}
}

// at returns the URL of a location in a bucket.
func at(path, mode string) string {
	return "s3://bkt/" + path + "#" + mode + "aws.endpoint=http://127.0.0.1:9000"
}

// nested creates a dataset with an array in a group. The array and the group each have an
// attribute.
func nested(t *testing.T, url string, o *dataset.Options, value int32) {
	t.Helper()
	ds := create(t, url, o)
	g, err := ds.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	x := dim(t, g, "x", 4, false)
	v := define(t, g, "w", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	setText(t, g.SetAttr, "of", "the group")
	setText(t, v.SetAttr, "of", fmt.Sprint(value))
	write(t, v, v.All(), []int32{value, value, value, value})
	closeDataset(t, ds)
}

// partsAbove lists parts of a dataset created by nested, the mode with which the dataset
// is created, and the mode with which the part is opened.
var partsAbove = []struct{ path, made, mode string }{ // never modified
	{"dir/a.zarr/g/w", "mode=zarr&", "mode=zarr&"},
	{"dir/a.zarr/g/w", "mode=zarr&", ""},
	{"dir/a.zarr/g/w", "mode=zarr,consolidated&", "mode=zarr&"},
	{"dir/a.zarr/g/w", "mode=nczarr&", "mode=nczarr&"},
	{"dir/a.zarr/g/w", "mode=nczarr,consolidated&", ""},
	{"dir/a.zarr/g", "mode=zarr&", "mode=zarr&"},
	{"dir/a.zarr/g", "mode=zarr&", ""},
	{"dir/a.zarr/g", "mode=zarr&", "mode=nczarr&"},
	{"dir/a.zarr/g", "mode=nczarr&", "mode=nczarr&"},
	{"dir/a.zarr/g", "mode=nczarr&", ""},
	{"dir/a.zarr/g", "mode=nczarr&", "mode=zarr&"},
}

// openPart opens a part and checks that it is complete. It returns nil if Open fails with
// ErrConflict.
func openPart(t *testing.T, url string, o *dataset.Options) (*dataset.Dataset, *dataset.Var) {
	t.Helper()
	ds, err := openURL(t.Context(), url, o)
	if err != nil {
		if ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%s: want ErrConflict, got %v", url, err)
		}
		return nil, nil
	}
	t.Cleanup(func() { _ = ds.Close(t.Context()) })
	vars := ds.Root().Vars()
	if len(vars) != 1 {
		t.Fatalf("%s: want one variable, got %d", url, len(vars))
	}
	if _, err := vars[0].Attr("of"); err != nil {
		t.Errorf("%s: attribute: %v", url, err)
	}
	return ds, vars[0]
}

// A reader that opens and reads a part of a dataset at any time during its replacement
// gets the old values, the new values, or an error.
func TestPartReadWhileReplacedAbove(t *testing.T) {
	t.Parallel()
	for _, part := range partsAbove {
		b := newBuckets()
		o := bucketOptions(b)
		nested(t, at("dir/a.zarr", part.made), o, 1)
		type reader struct {
			ds  *dataset.Dataset
			v   *dataset.Var
			got []int32
		}
		var readers []*reader
		var mu sync.Mutex
		good, refused := 0, 0
		look := func() {
			ds, v := openPart(t, at(part.path, part.mode), o)
			if ds == nil {
				refused++
			} else {
				readers = append(readers, &reader{ds: ds, v: v})
			}
			for _, r := range readers {
				got, err := dataset.Get[int32](t.Context(), r.v, r.v.All())
				if r.got = append(r.got, got...); err == nil {
					err = r.ds.CheckUnchanged(t.Context())
				}
				if err == nil && len(slices.Compact(slices.Clone(r.got))) > 1 {
					t.Errorf("%+v: want values of one dataset, got %v", part, r.got)
				}
				if err == nil {
					good++
				} else if ncerr.KindOf(err) != ncerr.ErrConflict {
					t.Errorf("%+v: want ErrConflict, got %v", part, err)
				}
			}
		}
		b.beforeChange = func(_, key string) error {
			mu.Lock() // objects are moved concurrently
			defer mu.Unlock()
			if strings.HasPrefix(key, "dir/a.zarr/") {
				look()
			}
			return nil
		}
		nested(t, at("dir/a.zarr", part.made), o, 2)
		b.beforeChange, readers = nil, nil
		if refused == 0 || good == 0 {
			t.Errorf("%+v: want both refused and successful reads, got %d and %d", part, refused, good)
		}
		look()
		expect(t, open(t, at("dir/a.zarr", part.made), o), "g/w", []int32{2, 2, 2, 2})
	}
}

// Writing to a part of a dataset that is being replaced fails.
func TestPartWrittenWhileReplacedAbove(t *testing.T) {
	t.Parallel()
	for _, part := range partsAbove {
		if part.path == "dir/a.zarr/g" && part.made == "mode=nczarr&" && part.mode != "mode=zarr&" {
			continue // opened as part of the dataset above
		}
		b := newBuckets()
		o := bucketOptions(b)
		nested(t, at("dir/a.zarr", part.made), o, 1)
		writer := update(t, at(part.path, part.mode), bucketOptions(&buckets{named: b.named}))
		v := writer.Root().Vars()[0]
		write(t, v, slab(0, 1), []int32{1})
		var mu sync.Mutex
		claimed, tried := false, 0
		b.beforeChange = func(_, key string) error {
			mu.Lock()
			defer mu.Unlock()
			isClaim := key == "dir/a.zarr/.nczreplacing"
			if strings.HasPrefix(key, "dir/a.zarr/") && claimed {
				tried++
				if err := v.Write(t.Context(), slab(1, 2), []int32{7, 7}); ncerr.KindOf(err) != ncerr.ErrConflict {
					t.Errorf("%+v: before %s: want ErrConflict, got %v", part, key, err)
				}
			}
			claimed = claimed || isClaim
			return nil
		}
		nested(t, at("dir/a.zarr", part.made), o, 2)
		b.beforeChange = nil
		if err := v.Write(t.Context(), slab(1, 2), []int32{7, 7}); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%+v: after the end: want ErrConflict, got %v", part, err)
		}
		if err := writer.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
			t.Errorf("%+v: flush: want ErrConflict, got %v", part, err)
		}
		_ = writer.Abort(t.Context())
		if tried < 10 {
			t.Errorf("%+v: the replacement made only %d changes", part, tried)
		}
		expect(t, open(t, at("dir/a.zarr", part.made), o), "g/w", []int32{2, 2, 2, 2})
	}
}

// pausedReplacement begins to replace a dataset in another goroutine, and returns when the
// replacement has reached the first change for which before returns true. The replacement
// pauses there until resume is called. resume returns when the replacement has finished.
func pausedReplacement(t *testing.T, b *buckets, url string, o *dataset.Options, before func(op, key string) bool) (resume func()) {
	t.Helper()
	reached, proceed, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var claimed atomic.Bool
	var once sync.Once
	b.beforeChange = func(op, key string) error {
		if key == "a.zarr/.nczreplacing" {
			claimed.Store(true)
		} else if claimed.Load() && before(op, key) {
			once.Do(func() { close(reached); <-proceed })
		}
		return nil
	}
	go func() { defer close(done); nested(t, url, o, 2) }()
	<-reached
	return sync.OnceFunc(func() { close(proceed); <-done })
}

// A reader detects a replacement that ends while the reader looks for the claim of the
// replacement.
func TestReplacementAboveEndsAtCheck(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o := bucketOptions(b)
	nested(t, at("a.zarr", "mode=zarr&"), o, 1)
	resume := func() {}
	hooks := *o
	hooks.Wrap = func(m driver.Map) driver.Map {
		return &hooked{Map: m, statted: func(string) { resume() }}
	}
	ds, v := openPart(t, at("a.zarr/g/w", "mode=zarr&"), &hooks)
	resume = pausedReplacement(t, b, at("a.zarr", "mode=zarr&"), o, func(op, key string) bool { return key == "a.zarr/g/w/.zarray" })
	got, err := dataset.Get[int32](t.Context(), v, v.All())
	if err != nil || !slices.Equal(got, []int32{2, 2, 2, 2}) {
		t.Fatalf("want [2 2 2 2], got %v, %v", got, err)
	}
	if err := ds.CheckUnchanged(t.Context()); ncerr.KindOf(err) != ncerr.ErrConflict {
		t.Errorf("want ErrConflict, got %v", err)
	}
	resume()
}

// fetching is a store that calls a function before each read.
type fetching struct {
	driver.Map
	before func(key string)
}

func (f fetching) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	f.before(key)
	return f.Map.Get(ctx, key, o, alloc)
}

// A part is complete if it is opened after the replacement has put only some of its
// documents, even if the claim is gone when the reader looks for it.
func TestReplacementAboveEndsAtOpen(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	nested(t, at("a.zarr", "mode=nczarr&"), bucketOptions(b), 1)
	put := make(chan struct{})
	var moving atomic.Bool
	writer := bucketOptions(b)
	writer.Wrap = func(m driver.Map) driver.Map {
		return &hooked{Map: m, stored: func(key string) error {
			if key == "g/w/.zarray" && moving.Load() {
				close(put)
			}
			return nil
		}}
	}
	resume := pausedReplacement(t, b, at("a.zarr", "mode=nczarr&"), writer, func(_, key string) bool {
		moving.Store(true) // before the first change at the location and after the last one in the stage
		if key == "a.zarr/g/w/.zattrs" {
			<-put
		}
		return key == "a.zarr/g/w/.zattrs"
	})
	o := bucketOptions(b)
	o.Wrap = func(m driver.Map) driver.Map {
		return fetching{m, func(key string) {
			if strings.HasSuffix(key, ".nczreplacing") {
				resume()
			}
		}}
	}
	_, v := openPart(t, at("a.zarr/g/w", "mode=nczarr&"), o)
	if a, err := v.Attr("of"); err != nil || a.Value != "2" {
		t.Errorf("want attribute 2, got %v, %v", a, err)
	}
	resume()
}

// A part can be read even if access to the prefixes above it is denied. Prefixes above
// an NCZarr root are not examined.
func TestInaccessiblePrefixesAbove(t *testing.T) {
	t.Parallel()
	for _, denied := range []error{ncerr.ErrPermission, ncerr.ErrAuth, ncerr.ErrUnsupported, ncerr.ErrIO} {
		b := newBuckets()
		o := bucketOptions(b)
		nested(t, at("dir/a.zarr", "mode=nczarr&"), o, 1)
		var asked atomic.Int32
		o.Wrap = func(m driver.Map) driver.Map { return deniedClaims{m, denied, &asked} }
		for _, path := range []string{"dir/a.zarr", "dir/a.zarr/g"} {
			ds := open(t, at(path, "mode=nczarr&"), o)
			if err := ds.CheckUnchanged(t.Context()); err != nil || asked.Load() != 0 {
				t.Errorf("%s: want no error and no requests, got %v after %d requests", path, err, asked.Load())
			}
		}
		for _, mode := range []string{"mode=nczarr&", "mode=zarr&", ""} {
			ds, err := openURL(t.Context(), at("dir/a.zarr/g/w", mode), o)
			if err == nil {
				err = ds.CheckUnchanged(t.Context())
				closeDataset(t, ds)
			}
			if want := ncerr.KindOf(denied) == ncerr.ErrIO; (ncerr.KindOf(err) == ncerr.ErrIO) != want || !want && err != nil {
				t.Errorf("store error %v, %s: got %v", denied, mode, err)
			}
		}
		if asked.Load() == 0 {
			t.Error("no requests were sent")
		}
	}
}

// deniedClaims is a store whose claims cannot be read.
type deniedClaims struct {
	driver.Map
	err   error
	asked *atomic.Int32
}

func (a deniedClaims) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if strings.HasSuffix(key, ".nczreplacing") {
		a.asked.Add(1)
		return nil, driver.Info{}, a.err
	}
	return a.Map.Get(ctx, key, o, alloc)
}
