package nczarr_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// shorten gives an array another shape, and leaves its chunks.
func shorten(t *testing.T, url string, o *nczarr.Options, key, shape string) {
	t.Helper()
	u := *o
	u.Update = true
	ds, err := nczarr.Open(t.Context(), url, &u)
	if err != nil {
		t.Fatal(err)
	}
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

// TestShorterArray has an array that ends before its unlimited dimension does,
// above chunks that have something there: that is not part of it.
func TestShorterArray(t *testing.T) {
	t.Parallel()
	o, url := memory(), "mem:shorter"
	ds := create(t, url, o)
	x, y := dim(t, ds.Root(), "x", 0, true), dim(t, ds.Root(), "y", 2, false)
	a := define(t, ds.Root(), "a", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{x}, Chunks: []int64{2}})
	b := define(t, ds.Root(), "b", &nczarr.VarSpec{Type: dtype.NCInt, Dims: []*nczarr.Dim{y, x}, Chunks: []int64{1, 4}, Fill: []int32{-1}})
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
			got, err := nczarr.Get[float64](t.Context(), v, chunk.Selection{Start: []int64{1, start}, Count: []int64{1, n}, Stride: []int64{1, stride}})
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

	u := *o
	u.Update = true
	ds = open(t, url, &u)
	if a, err = ds.Root().Var("a"); err == nil {
		err = a.Write(t.Context(), slab(9, 1), []int32{10}) // b stays as it is
	}
	if err == nil {
		err = ds.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	ds = open(t, url, &u)
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
