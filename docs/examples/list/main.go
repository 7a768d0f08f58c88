// Command list prints the variables of a dataset with their units:
//
//	list ocean.zarr
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed-695719ce/nczarr"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: list URL")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) (err error) {
	ds, err := nczarr.Open(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Finish(ctx, &err)
	for path, v := range ds.Walk() {
		fmt.Printf("%-12s %-6s %v %s\n", path, v.Type(), v.Shape(), v.Attr("units").Or("(no units)"))
	}
	for _, p := range ds.Problems() {
		fmt.Println("left out:", p.Path, p.Err)
	}
	return nil
}
