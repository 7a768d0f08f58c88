package ncurl_test

import (
	"fmt"

	"github.com/seed-695719ce/nczarr/core/ncurl"
)

func ExampleParse() {
	loc, err := ncurl.Parse("s3://ocean/levitus#mode=zarr&aws.profile=none", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(loc.Driver, loc.Path, loc.Format)
	fmt.Println(loc)
	// Output:
	// s3 ocean/levitus zarr
	// https://s3.us-east-1.amazonaws.com/ocean/levitus#mode=zarr,s3,nczarr&aws.profile=none
}
