package dataset

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// A Tree is a dataset whose chunks are not objects of the store that contains its
// documents, such as a dataset of references to parts of other files.
type Tree struct {
	// Documents holds the metadata documents under the keys of a Zarr store. Closing the
	// dataset closes it.
	Documents *zmap.Map
	// Store contains the file that describes the dataset, under Key. Closing the dataset
	// does not close it.
	Store *store.Store
	Key   string
	// Chunks returns the Source of an array whose keys begin with prefix. grid is the
	// number of its chunks along each dimension or, if the array has shards, of its
	// outermost shards.
	Chunks func(prefix string, keys chunk.Keys, grid []int64) manifest.Source
}

// OpenTree opens the dataset at a location that describes a Tree. It is read-only. make
// returns the Tree; it gets the options with all defaults. Errors: those of make,
// ncerr.ErrReadOnly with Options.Update, and those of [Open] about metadata.
func OpenTree(ctx context.Context, loc *ncurl.Location, o *Options, make func(*Options) (*Tree, error)) (*Dataset, error) {
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	if opts.Update || opts.migrating {
		return nil, ncerr.Errorf(ncerr.ErrReadOnly, "open", loc.Path, "a dataset of references cannot be changed; copy it first")
	}
	tree, err := make(&opts)
	if err != nil {
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	ds := &Dataset{loc: loc, store: tree.Store, m: tree.Documents, tree: tree, opts: opts, log: opts.Log, noXarray: !loc.Xarray}
	ds.setChunkCache()
	if err := (&loader{ds: ds}).loadAll(ctx); err != nil {
		_ = tree.Documents.Close(ctx) // the first error is more useful
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	return ds, nil
}

// objects returns the Source of the objects that contain the chunks of v: the chunks
// themselves, or the outermost shards.
func (v *Var) objects() manifest.Source {
	ds := v.group.ds
	if ds.tree == nil {
		return manifest.NewComputed(ds.m, v.key(), v.meta.Keys, len(v.meta.Chunks), ds.store.ReadsMany())
	}
	grid := v.grid()
	for i := len(v.meta.Shards) - 1; i >= 0; i-- {
		shards, _ := v.meta.ShardGrid(i) // ok is true, because the array was parsed
		for d, n := range grid {
			grid[d] = shards.Len(d, n)
		}
	}
	return ds.tree.Chunks(v.key(), v.meta.Keys, grid)
}
