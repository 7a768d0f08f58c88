// Command series prints the time series of a variable at one point:
//
//	series -lat 47.5 -lon 11 ocean.zarr temp
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/seed-695719ce/nczarr"
)

func main() {
	lat := flag.Float64("lat", 0, "degrees north")
	lon := flag.Float64("lon", 0, "degrees east")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: series [-lat N] [-lon N] URL VARIABLE")
		os.Exit(2)
	}
	point := []nczarr.Selector{nczarr.Along("lat", nczarr.Nearest(*lat)), nczarr.Along("lon", nczarr.Nearest(*lon))}
	if err := run(context.Background(), flag.Arg(0), flag.Arg(1), point); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, name string, point []nczarr.Selector) (err error) {
	ds, err := nczarr.Open(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Finish(ctx, &err)
	v, err := ds.Var(name)
	if err != nil {
		return err
	}
	times, err := v.Coordinate("time")
	if err != nil {
		return err
	}
	dates, err := nczarr.ReadTimes(ctx, times)
	if err != nil {
		return err
	}
	a, err := nczarr.ReadUnpacked[float64](ctx, v, point...)
	if err != nil || len(a.Dims) != 1 || a.Dims[0] != "time" {
		return cmp.Or(err, fmt.Errorf("%s has dimensions other than time, lat and lon: %v", name, a.Dims))
	}
	for i, x := range a.Data {
		fmt.Println(dates.Data[i], x, v.Attr("units"))
	}
	return nil
}
