package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr"
)

// Example is the program of the README, with a dataset that the example creates
// first.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ocean.zarr")
	if err := makeOcean(ctx, path); err != nil {
		panic(err)
	}

	ds, err := nczarr.Open(ctx, path)
	if err != nil {
		panic(err)
	}
	temp, err := ds.Var("temp")
	if err != nil {
		panic(err)
	}
	values, err := nczarr.ReadUnpacked[float64](ctx, temp, nczarr.At(0), nczarr.Along("lat", nczarr.Between(-23.5, 23.5)))
	fmt.Println(values.Shape, values.Data, err)
	err = ds.Close(ctx)
	fmt.Println(err)
	// Output:
	// [1 2] [1.5 2.5] <nil>
	// <nil>
}

func makeOcean(ctx context.Context, path string) (err error) {
	ds, err := nczarr.Create(ctx, path)
	if err != nil {
		return err
	}
	defer ds.Finish(ctx, &err)
	lat, err := ds.DefineVar(ctx, "lat", nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"lat"}, Shape: []int64{2}})
	if err != nil {
		return err
	}
	temp, err := ds.DefineVar(ctx, "temp", nczarr.VarSpec{
		Type: nczarr.Float32, Dims: []string{"time", "lat", "lon"}, Shape: []int64{1, 2, 2},
	})
	if err != nil {
		return err
	}
	if err := nczarr.Write(ctx, lat, []float32{0, 45}); err != nil {
		return err
	}
	return nczarr.Write(ctx, temp, []float32{1.5, 2.5, 3.5, 4.5})
}
