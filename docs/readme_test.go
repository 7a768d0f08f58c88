package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// The library use that the README shows, on a dataset made first.
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

	reg := nczarr.NewRegistry(drivers.New(), filters.Provider())
	ds, err := nczarr.Open(ctx, path, &nczarr.Options{Registry: reg})
	if err != nil {
		panic(err)
	}
	temp, err := ds.Root().Var("temp")
	if err != nil {
		panic(err)
	}
	values, err := nczarr.Get[float32](ctx, temp, temp.All())
	fmt.Println(values, err)
	err = ds.Close(ctx)
	fmt.Println(err)
	// Output:
	// [1.5 2.5] <nil>
	// <nil>
}

func makeOcean(ctx context.Context, path string) error {
	reg := nczarr.NewRegistry(drivers.New(), filters.Provider())
	ds, err := nczarr.Create(ctx, path, &nczarr.CreateOptions{Options: nczarr.Options{Registry: reg}})
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", 2, false)
	if err != nil {
		return err
	}
	temp, err := ds.Root().DefineVar(ctx, "temp", &nczarr.VarSpec{Type: dtype.NCFloat, Dims: []*nczarr.Dim{x}})
	if err != nil {
		return err
	}
	if err := temp.Write(ctx, temp.All(), []float32{1.5, 2.5}); err != nil {
		return err
	}
	return ds.Close(ctx)
}
