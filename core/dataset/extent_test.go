package dataset_test

import (
	"context"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// shorten changes the shape of an array without removing chunks.
func shorten(t *testing.T, url string, o *dataset.Options, key, shape string) {
	t.Helper()
	ds := update(t, url, o)
	text, _, err := ds.Map().Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?s)"shape": *\[.*?\]`).ReplaceAll(text, []byte(`"shape": `+shape))
	if _, err := ds.Map().Put(t.Context(), key, driver.Bytes(text), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
}

// TestShorterArray tests an array whose stored shape is smaller than its unlimited
// dimension. Chunk contents beyond the shape are not part of the array.
func TestShorterArray(t *testing.T) {
	t.Parallel()
	o, url := memory(), "mem:shorter"
	ds := create(t, url, o)
	x, y := dim(t, ds.Root(), "x", 0, true), dim(t, ds.Root(), "y", 2, false)
	a := define(t, ds.Root(), "a", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}})
	b := define(t, ds.Root(), "b", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{y, x}, Chunks: []int64{1, 4}, Fill: []int32{-1}})
	write(t, a, slab(0, 9), count[int32](9))
	write(t, b, chunk.Selection{Start: []int64{0, 0}, Count: []int64{2, 9}}, count[int32](18))
	closeDataset(t, ds)
	shorten(t, url, o, "b/.zarray", "[2, 3]")

	ds = open(t, url, o)
	short := []int32{1, 2, 3, -1, -1, -1, -1, -1, -1, 10, 11, 12, -1, -1, -1, -1, -1, -1}
	expect(t, ds, "b", short)
	v, err := ds.Root().Var("b")
	if err != nil {
		t.Fatal(err)
	}
	for start := range int64(9) {
		for stride := int64(1); start+stride < 9; stride++ {
			n := (8-start)/stride + 1
			got, err := dataset.Get[float64](t.Context(), v, chunk.Selection{Start: []int64{1, start}, Count: []int64{1, n}, Stride: []int64{1, stride}})
			for i := range got {
				if want := float64(short[9+start+int64(i)*stride]); got[i] != want {
					t.Errorf("from %d by %d: element %d is %v, want %v", start, stride, i, got[i], want)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	closeDataset(t, ds)

	ds = update(t, url, o)
	if a, err = ds.Root().Var("a"); err == nil {
		err = a.Write(t.Context(), slab(9, 1), []int32{10}) // b is unchanged
	}
	if err == nil {
		err = ds.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	ds = update(t, url, o)
	expect(t, ds, "b", slices.Insert(slices.Insert(slices.Clone(short), 18, -1), 9, -1))
	if v, err = ds.Root().Var("b"); err != nil {
		t.Fatal(err)
	}
	write(t, v, chunk.Selection{Start: []int64{1, 6}, Count: []int64{1, 1}}, []int32{70})
	want := []int32{1, 2, 3, -1, -1, -1, -1, -1, -1, -1, 10, 11, 12, -1, -1, -1, 70, -1, -1, -1}
	expect(t, ds, "b", want)
	closeDataset(t, ds)
	ds = open(t, url, o)
	expect(t, ds, "b", want)
	closeDataset(t, ds)
}

// TestShorterWithoutFill tests short arrays without a fill value, including fields of a
// structure. Elements beyond their shape must read as zeros. If the structure has a fill
// value, such elements of a field must read as the corresponding part of the fill value.
func TestShorterWithoutFill(t *testing.T) {
	t.Parallel()
	o := memory()
	array := func(dt, fill string) string {
		return `{"zarr_format": 2, "shape": [1], "chunks": [2], "dtype": ` + dt + `, "fill_value": ` + fill + `, "order": "C", "compressor": null, "filters": null}`
	}
	const record, refs = `[["i", "<i2"], ["j", "<i4"]]`, `{"_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked"}}`
	store(t, o, "s", map[string]string{
		".zgroup":   group,
		".zattrs":   `{` + superblock + `, "_nczarr_group": {"dimensions": {"x": {"size": 4, "unlimited": 1}}, "arrays": ["n", "s", "f"], "groups": []}}`,
		"n/.zarray": array(`"<i2"`, "null"), "n/.zattrs": refs, "n/0": "\x05\x00\x06\x00",
		"s/.zarray": array(record, "null"), "s/.zattrs": refs, "s/0": "\x05\x00\x06\x00\x00\x00\x07\x00\x08\x00\x00\x00",
		"f/.zarray": array(record, `"AQACAAAA"`), "f/.zattrs": refs, "f/0": "\x05\x00\x06\x00\x00\x00\x07\x00\x08\x00\x00\x00",
	})
	ds := open(t, "mem:s", o)
	expect(t, ds, "n", []int16{5, 0, 0, 0})
	expect(t, ds, "s.i", []int16{5, 0, 0, 0})
	expect(t, ds, "s.j", []int32{6, 0, 0, 0})
	expect(t, ds, "f.i", []int16{5, 1, 1, 1})
	expect(t, ds, "f.j", []int32{6, 2, 2, 2})
}

// blockingGet is a store in which a Get of one object returns only after end is closed.
type blockingGet struct {
	driver.Map
	key       string
	once      *atomic.Bool
	read, end chan struct{}
}

func (s blockingGet) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	body, info, err := s.Map.Get(ctx, key, o, alloc)
	if key == s.key {
		if s.once.CompareAndSwap(false, true) {
			s.read <- struct{}{}
			<-s.end
		}
	}
	return body, info, err
}

// TestShortArrayDuringWrite reads elements beyond the shape of an array while the first
// write removes their old contents. They must read as the fill value.
func TestShortArrayDuringWrite(t *testing.T) {
	t.Parallel()
	o, url := memory(), "mem:beside"
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 0, true)
	for _, name := range []string{"a", "b"} {
		v := define(t, ds.Root(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Fill: []int32{-1}})
		write(t, v, slab(0, 6), count[int32](6))
	}
	closeDataset(t, ds)
	shorten(t, url, o, "b/.zarray", "[2]")
	m := blockingGet{key: "b/1", once: new(atomic.Bool), read: make(chan struct{}), end: make(chan struct{})}
	u := *o
	u.Wrap = func(inner driver.Map) driver.Map { m.Map = inner; return m }
	ds = update(t, url, &u)
	v := variable(t, ds, "b")
	done := make(chan []int32)
	go func() {
		got, err := dataset.Get[int32](t.Context(), v, slab(2, 2))
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	<-m.read
	write(t, v, slab(4, 2), []int32{50, 60})
	close(m.end)
	if got := <-done; !slices.Equal(got, []int32{-1, -1}) {
		t.Errorf("want the fill value, got %v", got)
	}
	closeDataset(t, ds)
}
