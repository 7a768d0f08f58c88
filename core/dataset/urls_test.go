package dataset_test

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	urls "github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// openURL is Open of core/open.
func openURL(ctx context.Context, url string, o *dataset.Options) (*dataset.Dataset, error) {
	return urls.Open(ctx, url, o)
}

// createURL is open.Create.
func createURL(ctx context.Context, url string, o *dataset.CreateOptions) (*dataset.Dataset, error) {
	return urls.Create(ctx, url, o)
}

// storeURL is Store of core/open.
func storeURL(ctx context.Context, url string, o *dataset.Options) (*zmap.Map, error) {
	return urls.Store(ctx, url, o)
}

// locate returns the location of a valid URL.
func locate(url string) *ncurl.Location {
	loc, err := urls.Locate(url, &dataset.Options{Registry: registry.New(nil)}, false)
	if err != nil {
		panic(err)
	}
	return loc
}
