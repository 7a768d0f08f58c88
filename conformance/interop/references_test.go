package interop_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReferences reads a dataset of zarr-python through reference files of both versions, and
// compares it with what zarr-python wrote and with what GDAL reads from the same file.
func TestReferences(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"types", "layout", "codecs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, packages["zarr"]...)
			need(t, packages["gdal"]...)
			refs := filepath.Join(t.TempDir(), "refs")
			src, want := ownSample(t, "write.py", "--with", "zarr", "--case", name)
			must(t, "references.py", src, refs)
			if err := os.RemoveAll(src); err != nil {
				t.Fatal(err)
			}
			same(t, want, encode(t, describe(t, refs+".1.json", false)), "")
			plain := refs + ".0.json"
			got := encode(t, describe(t, plain, false))
			same(t, want, got, "")
			// GDAL refuses delta filters of one-byte types and dimensions of length 0, and rounds
			// the largest 64-bit fill value.
			same(t, must(t, "read.py", "--with", "gdal", plain), got, "type,dims,chunks,fill,attrs",
				"/delta_i1:", "/delta_narrow:", "/delta_shuffle_i1:", "/no_records:", "/missing_max:", "/unwritten_max:")
		})
	}
}
