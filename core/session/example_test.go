package session_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/session"
)

// This example uses the settings of nczctl. Drivers and filters run in the process of
// the program.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "session-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ocean.zarr")

	s, err := session.New(&session.Options{Isolation: "inproc"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := makeOcean(ctx, path, s.Options()); err != nil {
		log.Fatal(err)
	}
	ds, err := open.Open(ctx, path, s.Options())
	if err != nil {
		log.Fatal(err)
	}
	defer ds.Close(ctx)
	temp, err := ds.Root().Var("temp")
	if err != nil {
		log.Fatal(err)
	}
	values, err := dataset.Get[float32](ctx, temp, temp.All())
	fmt.Println(values, err)
	// Output:
	// [1.5 2.5] <nil>
}

func makeOcean(ctx context.Context, path string, o *dataset.Options) error {
	ds, err := open.Create(ctx, path, &dataset.CreateOptions{Options: *o})
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", 2, false)
	if err != nil {
		return err
	}
	temp, err := ds.Root().DefineVar(ctx, "temp", &dataset.VarSpec{Type: dtype.NCFloat, Dims: []*dataset.Dim{x}})
	if err != nil {
		return err
	}
	if err := temp.Write(ctx, temp.All(), []float32{1.5, 2.5}); err != nil {
		return err
	}
	return ds.Close(ctx)
}
