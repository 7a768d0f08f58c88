// Command box copies a region of every numeric variable into a compressed dataset:
//
//	box ocean.zarr north.zarr
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/seed-695719ce/nczarr"
)

var box = map[string]nczarr.Selector{"lat": nczarr.Between(30, 60), "lon": nczarr.Between(0, 90)}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: box FROM TO")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, from, to string) (err error) {
	src, err := nczarr.Open(ctx, from)
	if err != nil {
		return err
	}
	defer src.Finish(ctx, &err)
	dst, err := nczarr.Create(ctx, to)
	if err != nil {
		return err
	}
	defer dst.Finish(ctx, &err)
	for _, v := range slices.DeleteFunc(src.Vars(), func(v *nczarr.Var) bool { return v.Type() == nczarr.String || v.Type() == nczarr.Char }) {
		var selectors []nczarr.Selector
		for _, d := range v.Dims() {
			selectors = append(selectors, nczarr.Along(d.Name(), cmp.Or[nczarr.Selector](box[d.Name()], nczarr.All)))
		}
		a, err := nczarr.Read[float64](ctx, v, selectors...)
		if err != nil {
			return err
		}
		out, err := dst.DefineVar(ctx, v.Name(), nczarr.VarSpec{Type: v.Type(), Dims: a.Dims, Shape: a.Shape, Attrs: v.Attrs(), Codecs: []nczarr.Codec{nczarr.Zstd{Level: 5}}})
		if err != nil {
			return err
		}
		if err := nczarr.Write(ctx, out, a.Data); err != nil {
			return err
		}
	}
	return nil
}
