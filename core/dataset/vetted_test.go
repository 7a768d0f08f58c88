package dataset_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Elements beyond the shape of an array do not become values without a warning when the array
// is extended to the length of its dimension.
func TestLeftoversOfShortArray(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"zip", "directory", "memory", "memory without deletion"} {
		o, url := localOptions(), filepath.Join(t.TempDir(), "d.zip")+"#mode=nczarr,zip"
		switch kind {
		case "directory":
			url = filepath.Join(t.TempDir(), "d.zarr")
		case "memory", "memory without deletion":
			o, url = inMemory(), "mem:short"
		}
		createGrowing(t, url, o)
		shorten(t, url, o, "u/.zarray", "[2]")
		log := warningsOf(o)
		if kind == "memory without deletion" {
			o.Wrap = func(m driver.Map) driver.Map { return noDeletion{m} }
		}
		ds := update(t, url, o)
		write(t, variable(t, ds, "u"), slab(0, 1), []int32{9})
		closeDataset(t, ds)
		if !strings.Contains(log.String(), "elements beyond the shape") {
			t.Errorf("%s: want a warning, got %q", kind, log)
		}
		if f := int32(-2147483647); kind == "memory without deletion" { // another process may have written them
			expect(t, open(t, url, o), "u", []int32{9, 2, 3, 4})
		} else {
			expect(t, open(t, url, o), "u", []int32{9, 2, f, f})
		}
	}
}

// noDeletion is a store that cannot delete objects.
type noDeletion struct{ driver.Map }

func (n noDeletion) Capabilities() driver.Capabilities {
	c := n.Map.Capabilities()
	c.Delete = false
	return c
}

// withLeftover creates a dataset whose chunk u/0, which it returns, has an element beyond the
// shape, and opens it so that the next put of this chunk fails.
func withLeftover(t *testing.T, url string, o *dataset.Options) (ds *dataset.Dataset, raw []byte) {
	t.Helper()
	createGrowing(t, url, o)
	ds = update(t, url, o)
	raw, _, err := ds.Map().Get(t.Context(), "u/0", &driver.GetOptions{}, driver.Heap)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Clone(raw)
	raw[5*4] = 77
	if _, err := ds.Map().Put(t.Context(), "u/0", driver.Bytes(raw), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	var fail atomic.Bool
	fail.Store(true)
	o.Wrap = func(m driver.Map) driver.Map { return failOnce{m, "u/0", &fail} }
	return update(t, url, o), raw
}

// Elements beyond the shape are replaced with the fill value even if the first put of their
// chunk fails.
func TestLeftoversAfterFailedPut(t *testing.T) {
	t.Parallel()
	o, url := inMemory(), "mem:failedput"
	ds, _ := withLeftover(t, url, o)
	write(t, variable(t, ds, "u"), slab(4, 1), []int32{5})
	if err := ds.Flush(t.Context()); err == nil {
		t.Fatal("want the injected failure")
	}
	write(t, variable(t, ds, "u"), slab(6, 1), []int32{7})
	closeDataset(t, ds)
	expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, 5, -2147483647, 7})
}

// Elements beyond the shape are replaced with the fill value even if a write of the whole
// encoded chunk fails before.
func TestLeftoversAfterFailedEncodedPut(t *testing.T) {
	t.Parallel()
	o, url := inMemory(), "mem:failedencoded"
	ds, raw := withLeftover(t, url, o)
	if err := variable(t, ds, "u").WriteEncoded(t.Context(), []int64{0}, raw); err == nil {
		t.Fatal("want the injected failure")
	}
	write(t, variable(t, ds, "u"), slab(6, 1), []int32{7})
	closeDataset(t, ds)
	f := int32(-2147483647)
	expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, f, f, 7})
}

// failOnce is a store in which one put of an object fails.
type failOnce struct {
	driver.Map
	key  string
	fail *atomic.Bool
}

func (f failOnce) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if key == f.key && f.fail.CompareAndSwap(true, false) {
		return driver.Info{}, errCut
	}
	return f.Map.Put(ctx, key, body, o)
}

// afterPut is a store that calls a function after each put.
type afterPut struct {
	driver.Map
	f func(key string)
}

func (a afterPut) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	info, err := a.Map.Put(ctx, key, body, o)
	a.f(key)
	return info, err
}

// If metadata changes during the first Flush of a new dataset, later growth still puts a
// mark, so that other writers keep the elements that are not published yet.
func TestMarkAfterFirstFlush(t *testing.T) {
	t.Parallel()
	o, url := onBucket("nczarr")
	plain := *o
	var a *dataset.Dataset
	done := false
	unbuffered(o).Wrap = func(m driver.Map) driver.Map {
		return afterPut{m, func(key string) {
			if key == ".zgroup" && !done {
				done = true
				setText(t, a.Root().SetAttr, "title", "x")
			}
		}}
	}
	a = create(t, url, o)
	u := define(t, a.Root(), "u", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, a.Root(), "t", 0, true)}, Chunks: []int64{8}})
	write(t, u, slab(0, 4), []int32{1, 2, 3, 4})
	mustFlush(t, a)
	write(t, u, slab(4, 2), []int32{5, 6})
	b := update(t, url, &plain)
	write(t, variable(t, b, "u"), slab(0, 1), []int32{9})
	closeDataset(t, b)
	closeDataset(t, a)
	expect(t, open(t, url, &plain), "u", []int32{9, 2, 3, 4, 5, 6})
}

// A running writer is not overlooked among the marks of many dead ones.
func TestManyMarks(t *testing.T) {
	t.Parallel()
	o, url := unbuffered(localOptions()), filepath.Join(t.TempDir(), "a.zarr")
	createGrowing(t, url, o)
	a, b := update(t, url, o), update(t, url, o)
	write(t, variable(t, a, "u"), slab(4, 2), []int32{5, 6})
	for i := range 1000 {
		if _, err := b.Map().Put(t.Context(), fmt.Sprintf(".nczgrowing/0%d", i), driver.Bytes("{}"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := clearGrowth(t, b); err == nil {
		t.Error("leftovers were removed although a writer is running")
	}
	write(t, variable(t, b, "u"), slab(0, 1), []int32{9})
	mustFlush(t, b)
	mustFlush(t, a)
	expect(t, open(t, url, o), "u", []int32{9, 2, 3, 4, 5, 6})
}

// A writer that grows beside the mark of an earlier version finds out that its chunks were
// removed along with that mark.
func TestRemovedBesideOldMark(t *testing.T) {
	t.Parallel()
	o, url := unbuffered(inMemory()), "mem:beside"
	createGrowing(t, url, o)
	a := update(t, url, o)
	if _, err := a.Map().Put(t.Context(), ".nczgrowing", driver.Bytes("{}"), nil); err != nil {
		t.Fatal(err)
	}
	write(t, variable(t, a, "u"), slab(4, 5), []int32{5, 6, 7, 8, 9})
	b := update(t, url, o)
	if err := clearGrowth(t, b); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, b)
	if err := a.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("want an error, got %v", err)
	}
	expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4})
}

// If keys are too short for marks, elements beyond the shape are kept.
func TestTooShortForMarks(t *testing.T) {
	t.Parallel()
	o, url := unbuffered(inMemory()), "mem:shortkeys"
	o.Wrap = func(m driver.Map) driver.Map { return noRoomForMarks{m} }
	createGrowing(t, url, o)
	a, b := update(t, url, o), update(t, url, o)
	write(t, variable(t, a, "u"), slab(4, 2), []int32{5, 6})
	write(t, variable(t, b, "u"), slab(0, 1), []int32{9})
	closeDataset(t, b)
	closeDataset(t, a)
	expect(t, open(t, url, o), "u", []int32{9, 2, 3, 4, 5, 6})
}

// noRoomForMarks is a store with keys that are too short for marks.
type noRoomForMarks struct{ driver.Map }

func (s noRoomForMarks) Capabilities() driver.Capabilities {
	c := s.Map.Capabilities()
	c.MaxKey = 20
	return c
}

// A write that changes parts of many chunks lists the marks once and reads the document of the
// array once.
func TestVetCosts(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		o, url := unbuffered(inMemory()), "mem:vetcosts"
		o.Workers = 1
		ds := create(t, url, o)
		x, y := dim(t, ds.Root(), "t", 0, true), dim(t, ds.Root(), "y", 8, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x, y}, Chunks: []int64{8, 1}})
		write(t, v, chunk.Selection{Start: []int64{0, 0}, Count: []int64{4, 8}}, make([]int32, 32))
		closeDataset(t, ds)
		if other {
			ds = update(t, url, o)
			if _, err := ds.Map().Put(t.Context(), ".nczgrowing/X", driver.Bytes("{}"), nil); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
		}
		raise := update(t, url, o)
		for i := range 8 { // elements that differ from the fill value
			key := fmt.Sprintf("v/0.%d", i)
			if _, err := raise.Map().Put(t.Context(), key, driver.Bytes(bytes.Repeat([]byte{1}, 32)), nil); err != nil {
				t.Fatal(err)
			}
		}
		closeDataset(t, raise)
		counted := map[string]int{}
		var mu sync.Mutex
		o.Wrap = func(m driver.Map) driver.Map {
			return reading{markLister{m, func() { mu.Lock(); counted["list"]++; mu.Unlock() }}, func(key string) {
				mu.Lock()
				defer mu.Unlock()
				if !strings.HasPrefix(key, "v/0.") {
					counted[key]++
				}
			}}
		}
		ds = update(t, url, o)
		clear(counted)
		write(t, variable(t, ds, "v"), chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 8}}, make([]int32, 8))
		want := map[string]int{"list": 1, ".nczgrowing": 1}
		if other {
			want[".nczgrowing/X"] = 1
		} else {
			want["v/.zarray"] = 1
		}
		if !maps.Equal(counted, want) {
			t.Errorf("mark of another writer %t: want requests %v, got %v", other, want, counted)
		}
		closeDataset(t, ds)
	}
}

// markLister is a store that calls a function before each listing.
type markLister struct {
	driver.Map
	f func()
}

func (m markLister) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	m.f()
	return m.Map.List(ctx, prefix, o)
}

// Marks with absurd content are still marks: writers warn about them and keep elements that
// their writers may have written.
func TestForgedMarks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"huge length":    `{"writer":"X","lengths":{"/t":9223372036854775807}}`,
		"longer":         `{"writer":"X","lengths":{"/t":1000}}`,
		"negative":       `{"writer":"X","lengths":{"/t":-1}}`,
		"not a number":   `{"writer":"X","lengths":{"/t":1e999}}`,
		"many lengths":   `{"writer":"X","lengths":{` + strings.Repeat(`"":1,`, 10000) + `"/t":1000}}`,
		"long host":      `{"writer":"X","host":"` + strings.Repeat("h", 60000) + `"}`,
		"too long":       `{"writer":"X","host":"` + strings.Repeat("h", 1<<20) + `"}`,
		"later":          `{"writer":"X","made":"9999-01-01T00:00:00Z"}`,
		"nested":         strings.Repeat("[", 60000),
		"another writer": `{"writer":"../../u","host":"a\nb","pid":-1}`,
	} {
		o, url := unbuffered(inMemory()), "mem:forged"
		createGrowing(t, url, o)
		ds := update(t, url, o)
		if _, err := ds.Map().Put(t.Context(), ".nczgrowing/X", driver.Bytes(text), nil); err != nil {
			t.Fatal(err)
		}
		raw, _, err := ds.Map().ReadAll(t.Context(), "u/0", 0)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.Clone(raw)
		raw[5*4], raw[5*4+1], raw[5*4+2], raw[5*4+3] = 77, 0, 0, 0
		if _, err := ds.Map().Put(t.Context(), "u/0", driver.Bytes(raw), nil); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		log := warningsOf(o)
		ds = update(t, url, o)
		marks, err := ds.GrowthMarks(t.Context())
		if err != nil || len(marks) != 1 || len(marks[0].Owner()) > 400 || strings.Contains(marks[0].Owner(), "\n") {
			t.Errorf("%s: want one mark, got %v, %v", name, marks, err)
		}
		write(t, variable(t, ds, "u"), slab(6, 1), []int32{7})
		for _, want := range []string{"a dimension grows over elements that another writer may have written", "another writer may have written; they are kept"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: want a warning that %s", name, want)
			}
		}
		if log.Len() > 4000 {
			t.Errorf("%s: the warnings have %d bytes", name, log.Len())
		}
		closeDataset(t, ds)
		expect(t, open(t, url, o), "u", []int32{1, 2, 3, 4, -2147483647, 77, 7})
	}
}
