package dataset_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// createAppended creates a dataset with the variable u(t), which has 4 values in a chunk of 16.
// Each append rewrites all its objects.
func createAppended(t *testing.T, url string, o *dataset.Options) {
	t.Helper()
	ds := create(t, url, o)
	write(t, define(t, ds.Root(), "u", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, ds.Root(), "t", 0, true)}, Chunks: []int64{16}}), slab(0, 4), []int32{1, 2, 3, 4})
	closeDataset(t, ds)
}

// marksOf returns the keys of the growth marks in a bucket.
func marksOf(b *buckets) []string {
	return slices.DeleteFunc(b.names("bkt"), func(key string) bool { return !strings.Contains(key, mark) })
}

// Two writers can append in turn although each append of one of them changes all objects
// that the other has read. They leave no marks.
func TestAppendsInTurn(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr", "nczarr,v3", "nczarr,v3,consolidated"} {
		b := newBuckets()
		o, url := inBucket(b, mode)
		createAppended(t, url, o)
		log := warningsOf(o)
		w := []*dataset.Dataset{update(t, url, o), update(t, url, o)}
		want := []int32{1, 2, 3, 4}
		for _, ds := range w { // put the marks before any document changes
			write(t, variable(t, ds, "u"), slab(4, 1), []int32{5})
		}
		want = append(want, 5)
		for i := range 6 {
			ds := w[i%2]
			if i > 1 {
				value := int32(len(want) + 1)
				write(t, variable(t, ds, "u"), slab(int64(len(want)), 1), []int32{value})
				want = append(want, value)
			}
			mustFlush(t, ds)
			if i == 1 { // the two first writes overlap
				if !strings.Contains(log.String(), "a dimension grows over") {
					t.Errorf("%s: want a warning", mode)
				}
				log.Reset()
			}
		}
		if text := log.String(); strings.Contains(text, "may have written") {
			t.Errorf("%s: a writer that is not extending a dimension caused warnings: %s", mode, text)
		}
		for _, ds := range w {
			closeDataset(t, ds)
		}
		expect(t, open(t, url, o), "u", want)
		if keys := marksOf(b); len(keys) > 0 {
			t.Errorf("%s: these marks remain: %q", mode, keys)
		}
	}
}

// A writer that has appended before finds out that the dataset was replaced, although it
// keeps its mark until it is closed. It removes its mark even then.
func TestReplacedBetweenAppends(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr,v3", "nczarr,v3,consolidated"} {
		for _, what := range []string{"grow", "overwrite", "attribute", "abort"} {
			b := newBuckets()
			o, url := inBucket(b, mode)
			createAppended(t, url, o)
			ds := update(t, url, o)
			u := variable(t, ds, "u")
			write(t, u, slab(4, 1), []int32{5})
			mustFlush(t, ds)
			if len(marksOf(b)) != 1 {
				t.Errorf("%s: want one mark, got %q", mode, marksOf(b))
			}
			var err error
			if what != "abort" {
				createAppended(t, url, o)
			}
			switch what {
			case "grow":
				err = u.Write(t.Context(), slab(5, 1), []int32{66})
			case "overwrite":
				err = u.Write(t.Context(), slab(0, 1), []int32{66})
			case "attribute":
				setText(t, ds.Root().SetAttr, "title", "x")
			case "abort":
				err = ds.Abort(t.Context())
			}
			if what != "abort" {
				if ferr := ds.Flush(t.Context()); err == nil {
					err = ferr
				}
				if ncerr.KindOf(err) != ncerr.ErrConflict {
					t.Errorf("%s, %s: want ErrConflict, got %v", mode, what, err)
				}
				_ = ds.Close(t.Context())
				expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4})
			} else if err != nil {
				t.Error(err)
			}
			if keys := marksOf(b); len(keys) > 0 {
				t.Errorf("%s, %s: these marks remain: %q", mode, what, keys)
			}
		}
	}
}

// A writer whose idle mark was removed puts another one.
func TestIdleMarkIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o, url := inBucket(b, "nczarr,v3")
	createAppended(t, url, o)
	ds := update(t, url, o)
	u := variable(t, ds, "u")
	write(t, u, slab(4, 1), []int32{5})
	mustFlush(t, ds)
	other := update(t, url, o)
	if marks, err := other.RemoveLeftovers(t.Context()); err != nil || len(marks) != 1 || !marks[0].Idle {
		t.Errorf("want one idle mark, got %v, %v", marks, err)
	}
	closeDataset(t, other)
	write(t, u, slab(5, 1), []int32{6})
	if len(marksOf(b)) != 1 {
		t.Errorf("want one mark, got %q", marksOf(b))
	}
	closeDataset(t, ds)
	expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 6})
	if keys := marksOf(b); len(keys) > 0 {
		t.Errorf("these marks remain: %q", keys)
	}
}

// idleFault is a Map that calls before with the key of each put. It reports an error for the
// first put of an idle mark, which is stored nevertheless.
type idleFault struct {
	driver.Map
	before *func(key string)
	failed *atomic.Bool
}

func (f idleFault) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	text := make([]byte, body.Size())
	if _, err := body.ReadAt(text, 0); err != nil {
		return driver.Info{}, err
	}
	(*f.before)(key)
	info, err := f.Map.Put(ctx, key, driver.Bytes(text), o)
	if err == nil && strings.Contains(key, mark) && strings.Contains(string(text), `"idle":true`) && f.failed.CompareAndSwap(false, true) {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrIO, "put", key, "the response is lost")
	}
	return info, err
}

// If a Flush fails although its idle mark was stored, the next growth of the writer puts an
// active mark. Another writer must not clear the elements that are not flushed yet.
func TestLostReplyToIdleMark(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	o, url := inBucket(b, "nczarr,v3")
	createAppended(t, url, o)
	extra := update(t, url, o) // another document, which no writer changes
	define(t, extra.Root(), "s", &dataset.VarSpec{Type: dtype.NCInt})
	closeDataset(t, extra)
	before, failed, own := func(string) {}, &atomic.Bool{}, *o
	own.Wrap = func(m driver.Map) driver.Map { return idleFault{m, &before, failed} }
	ds := update(t, url, &own)
	write(t, variable(t, ds, "u"), slab(4, 1), []int32{5})
	if err := ds.Flush(t.Context()); err == nil || !failed.Load() {
		t.Fatal("want the injected failure")
	}
	write(t, variable(t, ds, "u"), slab(5, 1), []int32{6})
	before = func(key string) {
		if !strings.HasSuffix(key, "u/zarr.json") {
			return
		}
		before = func(string) {}
		other := update(t, url, o)
		write(t, variable(t, other, "u"), slab(6, 1), []int32{7})
		closeDataset(t, other)
	}
	mustFlush(t, ds)
	closeDataset(t, ds)
	expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, 6, 7})
	if marks := marksOf(b); len(marks) > 0 {
		t.Errorf("left-over marks: %q", marks)
	}
}
