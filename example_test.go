package nczarr_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-695719ce/nczarr"
)

// ctx is the context of all examples. A program passes its own.
var ctx = context.Background()

// must returns value. It exits the program if err is not nil.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// check exits the program if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// scratch creates an empty dataset in memory.
func scratch() *nczarr.Dataset {
	return must(nczarr.Create(ctx, "mem:scratch", nczarr.WithDriver(nczarr.Memory())))
}

// ocean creates the dataset that most examples read.
func ocean() *nczarr.Dataset {
	ds := scratch()
	fill(ds)
	return ds
}

// fill writes the dataset of the examples: three months on a grid of 3 x 4, as packed
// shorts, one of which is missing.
func fill(ds *nczarr.Dataset) {
	must(ds.DefineDim("time", nczarr.Unlimited))
	must(ds.DefineDim("lat", 3))
	must(ds.DefineDim("lon", 4))
	must(ds.DefineDim("station", 3))
	check(ds.SetAttr("title", "A made-up ocean"))

	axis := func(name string, t nczarr.Type, units string, values []float64) {
		v := must(ds.DefineVar(ctx, name, nczarr.VarSpec{Type: t, Dims: []string{name}, Attrs: []nczarr.Attr{{Name: "units", Value: units}}}))
		check(nczarr.Write(ctx, v, values, nczarr.Span(0, int64(len(values)))))
	}
	axis("time", nczarr.Int32, "days since 2000-01-01", []float64{0, 31, 60})
	axis("lat", nczarr.Float32, "degrees_north", []float64{60, 45, 30}) // descending
	axis("lon", nczarr.Float32, "degrees_east", []float64{0, 90, 180, 270})

	surface := must(ds.DefineGroup("surface"))
	temp := must(surface.DefineVar(ctx, "temp", nczarr.VarSpec{
		Type: nczarr.Int16, Dims: []string{"time", "lat", "lon"}, Chunks: []int64{1, 3, 4},
		Codecs: []nczarr.Codec{nczarr.Shuffle{}, nczarr.Zstd{Level: 3}},
		Fill:   -32768,
		Attrs: []nczarr.Attr{
			{Name: "units", Value: "degC"},
			{Name: "scale_factor", Value: 0.5},
			{Name: "add_offset", Value: 10.0},
		},
	}))
	packed := make([]int16, 36)
	for i := range packed {
		packed[i] = int16(i)
	}
	packed[5] = -32768
	check(nczarr.Write(ctx, temp, packed, nczarr.Span(0, 3)))

	names := must(ds.DefineVar(ctx, "station", nczarr.VarSpec{Type: nczarr.String, Dims: []string{"station"}, StringLen: 16}))
	check(nczarr.Write(ctx, names, []string{"Hawaii", "Azores", "Kerguelen"}))
	depth := must(ds.DefineVar(ctx, "depth", nczarr.VarSpec{Type: nczarr.Float64, Dims: []string{"station"}}))
	check(nczarr.Write(ctx, depth, []float64{4.5, 3, 120}))
}

// tempDir creates a directory for an example with files.
func tempDir() (dir string, remove func()) {
	dir = must(os.MkdirTemp("", "nczarr-"))
	return dir, func() { _ = os.RemoveAll(dir) }
}

// This example creates a dataset and reads a part of it.
func Example() {
	dir, remove := tempDir()
	defer remove()
	path := filepath.Join(dir, "ocean.zarr")

	write := func() (err error) {
		ds, err := nczarr.Create(ctx, path)
		if err != nil {
			return err
		}
		defer ds.Finish(ctx, &err)
		if _, err := ds.DefineDim("x", 4); err != nil {
			return err
		}
		temp, err := ds.DefineVar(ctx, "temp", nczarr.VarSpec{
			Type: nczarr.Float32, Dims: []string{"x"}, Codecs: []nczarr.Codec{nczarr.Zstd{Level: 3}},
		})
		if err != nil {
			return err
		}
		return nczarr.Write(ctx, temp, []float32{1.5, 2.5, 3.5, 4.5})
	}
	read := func() (err error) {
		ds, err := nczarr.Open(ctx, path)
		if err != nil {
			return err
		}
		defer ds.Finish(ctx, &err)
		temp, err := ds.Var("temp")
		if err != nil {
			return err
		}
		a, err := nczarr.Read[float64](ctx, temp, nczarr.Span(1, 3))
		fmt.Println(a.Data, a.Shape, a.Dims)
		return err
	}
	fmt.Println(write(), read())
	// Output:
	// [2.5 3.5] [2] [x]
	// <nil> <nil>
}

func ExampleRead() {
	ds := ocean()
	temp := must(ds.Var("surface/temp"))
	// The second month, all latitudes, the first two longitudes.
	a := must(nczarr.Read[int16](ctx, temp, nczarr.At(1), nczarr.All, nczarr.Span(0, 2)))
	fmt.Println(a.Dims, a.Shape, a.Data)
	// Output: [lat lon] [3 2] [12 13 16 17 20 21]
}

func ExampleRead_convert() {
	ds := ocean()
	a := must(nczarr.Read[float64](ctx, must(ds.Var("time"))))
	fmt.Println(a.Data)
	_, err := nczarr.Read[uint8](ctx, must(ds.Var("surface/temp")))
	fmt.Println(err)
	// Output:
	// [0 31 60]
	// read "/surface/temp": value not representable: element 5: -32768 does not fit in ubyte
}

func ExampleRead_strings() {
	ds := ocean()
	a := must(nczarr.Read[string](ctx, must(ds.Var("station"))))
	fmt.Printf("%q\n", a.Data)
	// Output: ["Hawaii" "Azores" "Kerguelen"]
}

// The last dimension of a variable of type char is the length of its strings.
func ExampleRead_char() {
	ds := scratch()
	must(ds.DefineDim("buoy", 2))
	must(ds.DefineDim("len", 5))
	v := must(ds.DefineVar(ctx, "name", nczarr.VarSpec{Type: nczarr.Char, Dims: []string{"buoy", "len"}}))
	check(nczarr.Write(ctx, v, []string{"north", "east"}))
	a := must(nczarr.Read[string](ctx, v))
	fmt.Printf("%q %v\n", a.Data, a.Shape)
	fmt.Println(nczarr.Write(ctx, v, []string{"southern"}, nczarr.At(0)))
	// Output:
	// ["north" "east"] [2]
	// write "/name": value not representable: string 0 has 8 bytes, more than the limit of 5
}

func ExampleRead_scalar() {
	ds := scratch()
	v := must(ds.DefineVar(ctx, "crs", nczarr.VarSpec{Type: nczarr.Int32}))
	check(nczarr.Write(ctx, v, []int32{4326}))
	fmt.Println(must(nczarr.Read[int32](ctx, v)).At())
	// Output: 4326
}

func ExampleReadInto() {
	ds := ocean()
	temp := must(ds.Var("surface/temp"))
	buf := make([]int16, 12) // values of one month; reused
	for month := range temp.Shape()[0] {
		a := must(nczarr.ReadInto(ctx, temp, buf, nczarr.At(month)))
		fmt.Println(a.Shape, slices.Max(a.Data))
	}
	// Output:
	// [3 4] 11
	// [3 4] 23
	// [3 4] 35
}

func ExampleReadUnpacked() {
	ds := ocean()
	temp := must(ds.Var("surface/temp"))
	a := must(nczarr.ReadUnpacked[float64](ctx, temp, nczarr.At(0), nczarr.At(1)))
	fmt.Println(a.Data)
	// Output: [12 NaN 13 13.5]
}

func ExampleReadTimes() {
	ds := ocean()
	a := must(nczarr.ReadTimes(ctx, must(ds.Var("time"))))
	for _, d := range a.Data {
		t, _ := d.Time()
		fmt.Println(d, t.Weekday())
	}
	// Output:
	// 2000-01-01T00:00:00 Saturday
	// 2000-02-01T00:00:00 Tuesday
	// 2000-03-01T00:00:00 Wednesday
}

// A calendar of 360 days has dates that do not exist in package time.
func ExampleReadTimes_calendar() {
	ds := scratch()
	must(ds.DefineDim("time", 2))
	v := must(ds.DefineVar(ctx, "time", nczarr.VarSpec{Type: nczarr.Float64, Dims: []string{"time"}, Attrs: []nczarr.Attr{
		{Name: "units", Value: "days since 2000-02-28 12:00"}, {Name: "calendar", Value: "360_day"},
	}}))
	check(nczarr.Write(ctx, v, []float64{1.5, 3}))
	a := must(nczarr.ReadTimes(ctx, v))
	for _, d := range a.Data {
		_, ok := d.Time()
		fmt.Println(d, d.Calendar(), ok)
	}
	// Output:
	// 2000-02-30T00:00:00 360_day false
	// 2000-03-01T12:00:00 360_day false
}

func ExampleArray() {
	ds := ocean()
	a := must(nczarr.Read[int16](ctx, must(ds.Var("surface/temp")), nczarr.Span(0, 2)))
	fmt.Println(a.Shape, a.Dims)
	fmt.Println(a.At(1, 2, 3), a.Data[a.Index(1, 2, 3)])
	// Output:
	// [2 3 4] [time lat lon]
	// 23 23
}

func ExampleArray_Sub() {
	ds := ocean()
	a := must(nczarr.Read[int16](ctx, must(ds.Var("surface/temp")), nczarr.At(2)))
	for i := range a.Shape[0] {
		row := a.Sub(i)
		fmt.Println(row.Dims, row.Data)
	}
	// Output:
	// [lon] [24 25 26 27]
	// [lon] [28 29 30 31]
	// [lon] [32 33 34 35]
}
