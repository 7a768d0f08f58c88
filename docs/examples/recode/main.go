// Command recode copies a dataset and compresses its numbers with another codec:
//
//	recode ocean.zarr small.zip
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed-695719ce/nczarr"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: recode FROM TO")
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
	return nczarr.Copy(ctx, dst.Group, src.Group, &nczarr.CopyOptions{
		Codecs: func(v *nczarr.Var) []nczarr.Codec {
			if v.Type() == nczarr.String || v.Type() == nczarr.Char {
				return nil // keep the codecs
			}
			return []nczarr.Codec{nczarr.Blosc{Compressor: "zstd", Level: 7}}
		},
		Progress: func(done, total int64) { fmt.Printf("%d of %d bytes\n", done, total) },
	})
}
