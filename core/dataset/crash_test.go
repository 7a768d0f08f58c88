package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// putFails is a store that accepts a limited number of puts and fails all later ones.
// left is the number of puts that it still accepts.
type putFails struct {
	driver.Map
	left *atomic.Int64
}

var errInjected = errors.New("injected failure")

func (p putFails) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if p.left.Add(-1) < 0 {
		return driver.Info{}, errInjected
	}
	return p.Map.Put(ctx, key, body, o)
}

func failPuts(o *dataset.Options) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(1 << 40)
	o.Wrap = func(m driver.Map) driver.Map { return putFails{m, left} }
	return left
}

func setText(t *testing.T, set func(dataset.Attr) error, name, text string) {
	t.Helper()
	if err := set(dataset.Attr{Name: name, Type: dtype.NCChar, Value: text}); err != nil {
		t.Fatal(err)
	}
}

// A process that dies after any number of writes of the first Flush leaves either no
// dataset or a complete one.
func TestKilledInFirstFlush(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:die", "mem:die#mode=zarr", "mem:die#mode=nczarr,consolidated", "mem:die#mode=v3", "mem:die#mode=v3,consolidated"} {
		for n := int64(0); ; n++ {
			o := memory()
			left := failPuts(o)
			ds := create(t, url, o)
			x := dim(t, ds.Root(), "x", 2, false)
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}})
			write(t, v, v.All(), []int32{1, 2})
			left.Store(n)
			err = ds.Flush(t.Context())
			o.Wrap = nil
			again, oerr := openURL(t.Context(), url, o)
			if oerr == nil {
				expect(t, again, "/g/v", []int32{1, 2})
				closeDataset(t, again)
			} else if !errors.Is(oerr, ncerr.ErrNotZarr) {
				t.Errorf("%s after %d writes: want a complete dataset or ErrNotZarr, got %v", url, n, oerr)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errInjected) {
				t.Fatal(err)
			}
			left.Store(1 << 40)
			if err := ds.Close(t.Context()); err != nil { // a second attempt completes the dataset
				t.Fatal(err)
			}
			again = open(t, url, o)
			expect(t, again, "/g/v", []int32{1, 2})
		}
	}
}

// If writing the consolidated document fails, the next Flush writes it.
func TestFlushTriesAgain(t *testing.T) {
	t.Parallel()
	const url = "mem:again#mode=nczarr,consolidated"
	for n := int64(0); ; n++ {
		o := memory()
		left := failPuts(o)
		ds := create(t, url, o)
		define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		setText(t, ds.Root().SetAttr, "title", "new")
		left.Store(n)
		err := ds.Flush(t.Context())
		left.Store(1 << 40)
		if err := ds.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.Wrap = nil
		again := open(t, url, o)
		if a, err := again.Root().Attr("title"); !again.Consolidated() || err != nil || a.Value != "new" {
			t.Errorf("after %d writes and a second Flush: want the new title, got %v, %v", n, a.Value, err)
		}
		if err == nil {
			return
		}
	}
}

// Abort removes a dataset that was never flushed, and nothing else.
func TestAbort(t *testing.T) {
	t.Parallel()
	o := memory()
	left := failPuts(o)
	ds := create(t, "mem:a", o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
	write(t, v, v.All(), []int32{1})
	left.Store(1)
	if err := ds.Flush(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("want the injected failure, got %v", err)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	left.Store(1 << 40)
	if _, err := openURL(t.Context(), "mem:a", o); !errors.Is(err, ncerr.ErrNoDataset) {
		t.Errorf("never flushed: want ErrNoDataset, got %v", err)
	}
	ds = create(t, "mem:a", o)
	v = define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
	write(t, v, v.All(), []int32{7})
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	setText(t, v.SetAttr, "late", "x")
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	ds = open(t, "mem:a", o)
	expect(t, ds, "v", []int32{7})
	o.Update = true
	ds, err := openURL(t.Context(), "mem:a", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, open(t, "mem:a", o), "v", []int32{7})
}

// After two concurrent Flushes, the store contains the newest metadata.
func TestConcurrentFlushes(t *testing.T) {
	t.Parallel()
	o := memory()
	g, wrap := newGate(".zattrs", false)
	o.Wrap = wrap
	ds := create(t, "mem:cf", o)
	setText(t, ds.Root().SetAttr, "title", "old")
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ds.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	setText(t, ds.Root().SetAttr, "title", "new")
	if err := ds.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	body, _, err := ds.Map().ReadAll(t.Context(), ".zattrs", 1<<20)
	if err != nil || !strings.Contains(string(body), `"new"`) {
		t.Errorf("want the newest title in %s, %v", body, err)
	}
	closeDataset(t, ds)
}

// TestConcurrentMethods calls the methods that are safe for concurrent use from many
// goroutines, so that the race detector can find races. Afterwards all written values
// must exist.
func TestConcurrentMethods(t *testing.T) {
	t.Parallel()
	o := memory(invert{})
	ds := create(t, "mem:all", o)
	root := ds.Root()
	time := dim(t, root, "time", 0, true)
	v := define(t, root, "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time}, Chunks: []int64{8}})
	const n = 24
	var wg sync.WaitGroup
	for i := range int64(n) {
		wg.Go(func() {
			ctx := t.Context()
			name := fmt.Sprintf("n%d", i)
			errs := []error{
				v.Write(ctx, slab(i, 1), []int32{int32(i)}),
				root.SetAttr(dataset.Attr{Name: name, Type: dtype.NCInt, Value: []int32{1}}),
				v.SetAttr(dataset.Attr{Name: name, Type: dtype.NCInt, Value: []int32{1}}),
			}
			_, err := root.DefineDim(name, i, false)
			errs = append(errs, err)
			_, err = root.DefineGroup("g" + name)
			errs = append(errs, err)
			w, err := root.DefineVar(ctx, name, &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{time}})
			errs = append(errs, err)
			if err == nil {
				errs = append(errs, w.Write(ctx, slab(i, 1), []string{name}))
			}
			_, err = dataset.Get[int32](ctx, v, v.All())
			errs = append(errs, err, ds.Flush(ctx))
			_, _, _, _ = root.Vars(), root.Dims(), root.Attrs(), v.Attrs()
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	closeDataset(t, ds)
	ds = open(t, "mem:all", o)
	want := make([]int32, n)
	for i := range want {
		want[i] = int32(i)
	}
	expect(t, ds, "v", want)
	for i := range n {
		text := make([]string, n)
		text[i] = fmt.Sprintf("n%d", i)
		expect(t, ds, text[i], text)
	}
}
