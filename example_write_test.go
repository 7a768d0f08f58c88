package nczarr_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/seed-695719ce/nczarr"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

func ExampleOpen() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zip")
	made := must(nczarr.Create(ctx, path))
	fill(made)
	check(made.Close(ctx))

	ds, err := nczarr.Open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ds.Attr("title"))
	fmt.Println(ds.Close(ctx))
	// Output:
	// A made-up ocean
	// <nil>
}

func ExampleOpen_errors() {
	_, err := nczarr.Open(ctx, "/nowhere/ocean.zarr")
	fmt.Println(errors.Is(err, nczarr.ErrNoDataset))
	_, err = nczarr.Open(ctx, "s3://bucket/ocean.zarr#aws.profile=none")
	fmt.Println(errors.Is(err, nczarr.ErrUnsupported))
	_, err = nczarr.Open(ctx, "ocean.zarr", nczarr.PureZarr())
	fmt.Println(err)
	// Output:
	// true
	// true
	// open "ocean.zarr": invalid argument: PureZarr is an option of Create, not of Open
}

func ExampleCreate() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")
	ds := must(nczarr.Create(ctx, path, nczarr.PureZarr(), nczarr.Consolidated()))
	fill(ds)
	check(ds.Close(ctx))

	_, err := nczarr.Create(ctx, path)
	fmt.Println(errors.Is(err, nczarr.ErrExists))
	ds = must(nczarr.Create(ctx, path, nczarr.Replace()))
	fmt.Println(ds.Close(ctx))
	// Output:
	// true
	// <nil>
}

func ExampleWritable() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")
	check(must(nczarr.Create(ctx, path)).Close(ctx))

	ds := must(nczarr.Open(ctx, path, nczarr.Writable()))
	check(ds.SetAttr("history", "revised"))
	check(ds.Close(ctx))
	ds = must(nczarr.Open(ctx, path))
	fmt.Println(ds.Attr("history"), errors.Is(ds.SetAttr("history", ""), nczarr.ErrReadOnly))
	// Output: revised true
}

func ExampleMemory() {
	mem := nczarr.WithDriver(nczarr.Memory())
	ds := must(nczarr.Create(ctx, "mem:scratch", mem))
	check(ds.SetAttr("title", "gone with the program"))
	check(ds.Close(ctx))
	fmt.Println(must(nczarr.Open(ctx, "mem:scratch", mem)).Attr("title"))
	// Output: gone with the program
}

// The S3 driver is in a separate package, drivers/s3, because it depends on the AWS
// SDK.
func ExampleWithDriver() {
	store := nczarr.WithDriver(s3.New())
	_, err := nczarr.Open(ctx, "s3://bucket/ocean.zarr#mode=nonsense", store)
	fmt.Println(errors.Is(err, nczarr.ErrBadURL))
	// Output: true
}

func ExampleDataset_Finish() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")
	work := func(fail error) (err error) {
		ds, err := nczarr.Create(ctx, path)
		if err != nil {
			return err
		}
		defer ds.Finish(ctx, &err)
		return fail
	}
	fmt.Println(work(errors.New("out of ideas")))
	_, err := nczarr.Open(ctx, path) // the dataset was removed
	fmt.Println(errors.Is(err, nczarr.ErrNoDataset))
	fmt.Println(work(nil))
	// Output:
	// out of ideas
	// true
	// <nil>
}

func ExampleDataset_Close() {
	ds := ocean()
	if err := ds.Close(ctx); err != nil {
		fmt.Println("the data is not complete:", err)
		return
	}
	fmt.Println("complete")
	// Output: complete
}

func ExampleDataset_Flush() {
	mem := nczarr.WithDriver(nczarr.Memory())
	ds := must(nczarr.Create(ctx, "mem:log", mem))
	check(ds.SetAttr("state", "running"))
	check(ds.Flush(ctx)) // now visible to readers
	fmt.Println(must(nczarr.Open(ctx, "mem:log", mem)).Attr("state"))
	// Output: running
}

func ExampleGroup_DefineVar() {
	ds := scratch()
	must(ds.DefineDim("x", 100))
	v := must(ds.DefineVar(ctx, "height", nczarr.VarSpec{
		Type: nczarr.Float32, Dims: []string{"x"}, Chunks: []int64{50},
		Codecs: []nczarr.Codec{nczarr.Shuffle{}, nczarr.Zlib{Level: 5}},
		Fill:   -1, Attrs: []nczarr.Attr{{Name: "units", Value: "m"}},
	}))
	fmt.Println(v.Type(), v.Shape(), v.Chunks(), v.Attr("_FillValue"))
	_, err := ds.DefineVar(ctx, "depth", nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"x"}, Codecs: []nczarr.Codec{nczarr.Zlib{Level: 10}}})
	fmt.Println(errors.Is(err, nczarr.ErrInvalid))
	// Output:
	// float [100] [50] -1
	// true
}

// Shape defines dimensions that do not exist yet, here with the lengths of an array
// that was read from another dataset.
func ExampleVarSpec_shape() {
	a := must(nczarr.ReadUnpacked[float32](ctx, must(ocean().Var("surface/temp")), nczarr.At(0), nczarr.Span(0, 2)))
	ds := scratch()
	v := must(ds.DefineVar(ctx, "temp", nczarr.VarSpec{Type: nczarr.Float32, Dims: a.Dims, Shape: a.Shape}))
	check(nczarr.Write(ctx, v, a.Data))
	fmt.Println(must(ds.Dim("lat")).Len(), must(ds.Dim("lon")).Len())
	_, err := ds.DefineVar(ctx, "mask", nczarr.VarSpec{Type: nczarr.Int8, Dims: []string{"lat"}, Shape: []int64{7}})
	fmt.Println(err)
	// Output:
	// 2 4
	// define "/mask": invalid argument: dimension "/lat" has length 2, not 7
}

func ExampleWrite() {
	ds := scratch()
	must(ds.DefineDim("y", 2))
	must(ds.DefineDim("x", 3))
	v := must(ds.DefineVar(ctx, "v", nczarr.VarSpec{Type: nczarr.Int32, Dims: []string{"y", "x"}, Fill: 0}))
	check(nczarr.Write(ctx, v, []int32{1, 2, 3}, nczarr.At(1)))
	check(nczarr.Write(ctx, v, []int64{7, 8}, nczarr.Along("x", nczarr.At(0))))
	fmt.Println(must(nczarr.Read[int32](ctx, v)).Data)
	// Output: [7 0 0 8 2 3]
}

// A write beyond the end of an unlimited dimension extends it.
func ExampleWrite_append() {
	ds := ocean()
	dim := must(ds.Dim("time"))
	n := dim.Len()
	check(nczarr.Write(ctx, must(ds.Var("time")), []int32{91}, nczarr.At(n)))
	check(nczarr.Write(ctx, must(ds.Var("surface/temp")), make([]int16, 12), nczarr.At(n)))
	fmt.Println(n, dim.Len(), must(ds.Var("surface/temp")).Shape())
	// Output: 3 4 [4 3 4]
}

func ExampleWrite_strings() {
	ds := ocean()
	station := must(ds.Var("station"))
	check(nczarr.Write(ctx, station, []string{"Galápagos"}, nczarr.At(1)))
	fmt.Println(must(nczarr.Read[string](ctx, station)).Data)
	// Output: [Hawaii Galápagos Kerguelen]
}

func ExampleWriteUnpacked() {
	temp := must(ocean().Var("surface/temp"))
	check(nczarr.WriteUnpacked(ctx, temp, []float64{10, 12.5, math.NaN(), -3}, nczarr.At(0), nczarr.At(0)))
	fmt.Println(must(nczarr.Read[int16](ctx, temp, nczarr.At(0), nczarr.At(0))).Data)
	// Output: [0 5 -32768 -26]
}

func ExampleWriteTimes() {
	ds := ocean()
	v := must(ds.Var("time"))
	check(nczarr.WriteTimes(ctx, v, []time.Time{time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC)}, nczarr.At(3)))
	fmt.Println(must(nczarr.Read[int32](ctx, v)).Data)
	// Output: [0 31 60 91]
}

func ExampleCopy() {
	mem := nczarr.WithDriver(nczarr.Memory())
	dst := must(nczarr.Create(ctx, "mem:copy", mem))
	check(nczarr.Copy(ctx, dst.Group, ocean().Group, &nczarr.CopyOptions{
		Select: func(v *nczarr.Var) bool { return v.Name() != "depth" },
		Codecs: func(v *nczarr.Var) []nczarr.Codec {
			if v.Name() != "temp" {
				return nil // keep the codecs
			}
			return []nczarr.Codec{nczarr.Blosc{Compressor: "zstd", Level: 9}}
		},
	}))
	for path, v := range dst.Walk() {
		fmt.Println(path, v.Codecs())
	}
	// Output:
	// /time []
	// /lat []
	// /lon []
	// /station []
	// /surface/temp [{"id":"blosc","cname":"zstd","clevel":9}]
}
