package nczarr_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-695719ce/nczarr"
)

func ExampleAt() {
	temp := must(ocean().Var("surface/temp"))
	a := must(nczarr.Read[int16](ctx, temp, nczarr.At(2), nczarr.At(0), nczarr.At(3)))
	fmt.Println(a.At(), len(a.Shape))
	// Output: 27 0
}

func ExampleSpan() {
	temp := must(ocean().Var("surface/temp"))
	a := must(nczarr.Read[int16](ctx, temp, nczarr.At(0), nczarr.At(0), nczarr.Span(1, 3)))
	fmt.Println(a.Data)
	// Output: [1 2]
}

func ExampleFrom() {
	lon := must(ocean().Var("lon"))
	fmt.Println(must(nczarr.Read[float32](ctx, lon, nczarr.From(2))).Data)
	// Output: [180 270]
}

func ExampleRange_By() {
	lon := must(ocean().Var("lon"))
	fmt.Println(must(nczarr.Read[float32](ctx, lon, nczarr.From(0).By(2))).Data)
	// Output: [0 180]
}

func ExampleAlong() {
	temp := must(ocean().Var("surface/temp"))
	a := must(nczarr.Read[int16](ctx, temp, nczarr.Along("lon", nczarr.At(0)), nczarr.Along("time", nczarr.Span(0, 2))))
	fmt.Println(a.Dims, a.Shape, a.Data)
	_, err := nczarr.Read[int16](ctx, temp, nczarr.Along("latt", nczarr.At(0)))
	fmt.Println(err)
	// Output:
	// [time lat] [2 3] [0 4 8 12 16 20]
	// read "/surface/temp": find dimension "latt": no such dimension: did you mean "lat"?
}

func ExampleNearest() {
	temp := must(ocean().Var("surface/temp"))
	a := must(nczarr.Read[int16](ctx, temp, nczarr.Along("lat", nczarr.Nearest(47.2)), nczarr.Along("lon", nczarr.Nearest(100))))
	fmt.Println(a.Dims, a.Data)
	// Output: [time] [-32768 17 29]
}

func ExampleNearest_time() {
	temp := must(ocean().Var("surface/temp"))
	when := time.Date(2000, 2, 10, 0, 0, 0, 0, time.UTC)
	a := must(nczarr.Read[int16](ctx, temp, nczarr.Nearest(when), nczarr.At(0)))
	fmt.Println(a.Data)
	// Output: [12 13 14 15]
}

func ExampleExact() {
	temp := must(ocean().Var("surface/temp"))
	a := must(nczarr.Read[int16](ctx, temp, nczarr.Exact("2000-02-01"), nczarr.Exact(30)))
	fmt.Println(a.Data)
	_, err := nczarr.Read[int16](ctx, temp, nczarr.Along("lat", nczarr.Exact(31)))
	fmt.Println(errors.Is(err, nczarr.ErrRange), err)
	// Output:
	// [20 21 22 23]
	// true read "/surface/temp": select along "lat": outside the bounds: no value of "/lat" matches Exact(31)
}

func ExampleExact_label() {
	depth := must(ocean().Var("depth"))
	a := must(nczarr.Read[float64](ctx, depth, nczarr.Exact("Kerguelen")))
	fmt.Println(a.At())
	_, err := nczarr.Read[float64](ctx, depth, nczarr.Exact("Kergulen"))
	fmt.Println(err)
	// Output:
	// 120
	// read "/depth": select along "station": outside the bounds: no value of "/station" equals "Kergulen"; did you mean "Kerguelen"?
}

// The latitudes of the dataset descend, so the result does too.
func ExampleBetween() {
	ds := ocean()
	north := nczarr.Between(40.0, math.Inf(1))
	lat := must(nczarr.Read[float32](ctx, must(ds.Var("lat")), north))
	temp := must(nczarr.Read[int16](ctx, must(ds.Var("surface/temp")), nczarr.At(0), north, nczarr.Between(80, 180)))
	fmt.Println(lat.Data, temp.Shape, temp.Data)
	// Output: [60 45] [2 2] [1 2 -32768 6]
}

func ExampleBetween_time() {
	ds := ocean()
	february := nczarr.Between("2000-02", "2000-02")
	spring := nczarr.Between("2000-03", "2000-05")
	fmt.Println(must(nczarr.ReadTimes(ctx, must(ds.Var("time")), february)).Data)
	fmt.Println(must(nczarr.ReadTimes(ctx, must(ds.Var("time")), spring)).Data)
	// Output:
	// [2000-02-01T00:00:00]
	// [2000-03-01T00:00:00]
}

func ExampleVar_Coordinate() {
	temp := must(ocean().Var("surface/temp"))
	lat := must(temp.Coordinate("lat"))
	fmt.Println(lat.Path(), lat.Attr("units"))
	// Output: /lat degrees_north
}
