package dataset_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// BenchmarkOpen1000 opens a dataset of 1,000 variables in a directory.
func BenchmarkOpen1000(b *testing.B) {
	for _, mode := range []string{"nczarr", "zarr"} {
		o := fileOptions()
		url := filepath.Join(b.TempDir(), "many.file") + "#mode=" + mode
		ds, err := createURL(b.Context(), url, &dataset.CreateOptions{Options: *o, Consolidated: true})
		if err != nil {
			b.Fatal(err)
		}
		x, err := ds.Root().DefineDim("x", 576, false)
		if err != nil {
			b.Fatal(err)
		}
		for i := range 1000 {
			_, err := ds.Root().DefineVar(b.Context(), fmt.Sprintf("v%03d", i), &dataset.VarSpec{
				Type: dtype.NCFloat, Dims: []*dataset.Dim{x, x}, Chunks: []int64{30, 30},
				Attrs: []dataset.Attr{
					{Name: "long_name", Type: dtype.NCChar, Value: "fraction_of_ocean"},
					{Name: "units", Type: dtype.NCChar, Value: "1"},
					{Name: "valid_range", Type: dtype.NCFloat, Value: []float32{-1e15, 1e15}},
				},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := ds.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, suffix := range []string{"", ",consolidated"} {
			b.Run(mode+suffix, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					ds, err := openURL(b.Context(), url+suffix, o)
					if err != nil || len(ds.Root().Vars()) != 1000 {
						b.Fatal(err)
					}
					if err := ds.Close(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
