// Command append adds a day to the end of a dataset:
//
//	append ocean.zarr 2000-03-02
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/seed-695719ce/nczarr"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: append URL YYYY-MM-DD")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, day string) (err error) {
	when, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	ds, err := nczarr.Open(ctx, url, nczarr.Writable())
	if err != nil {
		return err
	}
	defer ds.Finish(ctx, &err)
	temp, err := ds.Var("temp")
	if err != nil {
		return err
	}
	times, err := temp.Coordinate("time")
	if err != nil {
		return err
	}
	n := times.Len() // the index of the new day
	size := 1
	for _, length := range temp.Shape()[1:] {
		size *= int(length)
	}
	field := slices.Repeat([]float64{12.5}, size)
	if err := nczarr.WriteUnpacked(ctx, temp, field, nczarr.At(n)); err != nil {
		return err
	}
	return nczarr.WriteTimes(ctx, times, []time.Time{when}, nczarr.At(n))
}
