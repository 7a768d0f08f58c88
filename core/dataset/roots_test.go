package dataset_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestStructuredRoot checks that a store whose root is an array of structured elements
// has a variable for each field, like such an array below a group.
func TestStructuredRoot(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "pairs", map[string]string{
		".zarray": `{"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": [["a", "<i2"], ["b", "|u1"]], "fill_value": null, "order": "C", "compressor": null, "filters": null}`,
		".zattrs": `{"units": "m"}`,
		"0":       "\x01\x00\x02\x03\x00\x04",
		"1":       "\x05\x00\x06\x00\x00\x00",
	})
	ds := open(t, "mem:pairs", o)
	if p := ds.Problems(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	a, b := variable(t, ds, "pairs.a"), variable(t, ds, "pairs.b")
	if got, err := dataset.Get[int16](t.Context(), a, a.All()); err != nil || !slices.Equal(got, []int16{1, 3, 5}) {
		t.Errorf("want [1 3 5], got %v, %v", got, err)
	}
	if got, err := dataset.Get[uint8](t.Context(), b, b.All()); err != nil || !slices.Equal(got, []uint8{2, 4, 6}) {
		t.Errorf("want [2 4 6], got %v, %v", got, err)
	}
	if attr(t, a.Attrs(), "units") != "m" {
		t.Errorf("want units m, got %v", a.Attrs())
	}
	up := update(t, "mem:pairs", o)
	if _, err := up.Root().DefineDim("x", 1, false); err == nil {
		t.Error("the array was changed")
	}
	closeDataset(t, up)
}

// TestErrorsNameTheSameDocument checks that if several documents are damaged, the error
// always names the same one.
func TestErrorsNameTheSameDocument(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "bad", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": "{", "v/.zattrs": "["})
	seen := map[string]bool{}
	for range 32 {
		ds, err := openURL(t.Context(), "mem:bad", o)
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(ds.Problems())] = true
		closeDataset(t, ds)
	}
	if len(seen) != 1 {
		t.Errorf("want equal errors, got %d different ones: %v", len(seen), seen)
	}
}

// Objects below the name of a document do not make a location a dataset, and Open does
// not report that a replacement has just ended.
func TestDirectoryNamedLikeADocument(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "odd", map[string]string{".zgroup/x": "x"})
	if _, err := openURL(t.Context(), "mem:odd", o); ncerr.KindOf(err) != ncerr.ErrNotZarr {
		t.Error(err)
	}
}
