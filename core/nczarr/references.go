package nczarr

import (
	"context"
	"net/url"
	"path"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/refs"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// references holds the references of a dataset whose chunks are in other files. A nil
// references has none.
type references struct {
	file     *refs.File
	resolver *store.Resolver
	key      string        // of the reference file
	cache    *budget.Share // for the references of all arrays
}

// maxPages is the maximum size in bytes of the references that a dataset caches. A reference
// with templates can be hundreds of times as large as its text.
const maxPages = 16 << 20

// openReferences opens the dataset that a reference file describes.
func openReferences(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	if opts.Update || opts.migrating {
		return nil, ncerr.Errorf(ncerr.ErrReadOnly, "open", loc.Path, "a dataset of references cannot be changed; copy it first")
	}
	resolver, err := store.NewResolver(ctx, loc, opts.URLEnv, opts.References, opts.store())
	if err != nil {
		return nil, err
	}
	ds, err := readReferences(ctx, loc, opts, resolver)
	if err != nil {
		_ = resolver.Close(ctx) // the first error is more useful
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	return ds, nil
}

// readReferences reads the reference file and the documents in it.
func readReferences(ctx context.Context, loc *ncurl.Location, opts Options, resolver *store.Resolver) (*Dataset, error) {
	key := path.Base(loc.Path)
	if loc.Driver == ncurl.DriverHTTP {
		var err error
		if key, err = url.PathUnescape(key); err != nil {
			return nil, ncerr.New(ncerr.ErrBadURL, "", "", err)
		}
	}
	text, _, err := resolver.Root().ReadAll(ctx, key, opts.Limits.MaxDocuments)
	if err != nil {
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			err = ncerr.Errorf(ncerr.ErrNoDataset, "", "", "the reference file does not exist")
		}
		return nil, err
	}
	file, err := refs.Parse(text, refs.Limits{MaxKeys: opts.Limits.MaxKeys, MaxDocument: opts.Limits.MaxMetadata})
	if err != nil {
		return nil, err
	}
	docs := &documentMap{Map: memmap.New(), resolver: resolver}
	for key, text := range file.Documents() {
		if _, err := docs.Put(ctx, key, driver.Bytes(text), &driver.PutOptions{}); err != nil {
			return nil, ncerr.Wrap("parse", zmap.Path(key), err)
		}
	}
	ds := &Dataset{
		loc: loc, store: resolver.Root(), opts: opts, log: opts.Log, noXarray: !loc.Xarray, refs: &references{file, resolver, key, budget.NewShare(min(maxPages, opts.Budget.Documents()))},
		m: zmap.New(docs, &zmap.Options{Name: "kerchunk", ReadOnly: true, MaxList: opts.Limits.MaxKeys, MaxListBytes: opts.Limits.MaxListing}),
	}
	ds.setChunkCache()
	return ds, (&loader{ds: ds}).loadAll(ctx)
}

// source returns the Source of the chunks of v, or of the shards that contain them. It returns
// nil if the dataset has no references.
func (r *references) source(v *Var) manifest.Source {
	if r == nil {
		return nil
	}
	grid := v.grid()
	for i := len(v.meta.Shards) - 1; i >= 0; i-- {
		shards, _ := v.meta.ShardGrid(i) // ok is true, because the array was parsed
		for d, n := range grid {
			grid[d] = shards.Len(d, n)
		}
	}
	return r.file.Table(v.key(), v.meta.Keys, grid, r.resolver, r.cache, v.group.ds.opts.Limits.MaxChunk)
}

// documentMap holds the documents of a reference file. Its latency is that of the stores with
// the chunks, because the array engine takes it from here.
type documentMap struct {
	*memmap.Map
	resolver *store.Resolver
}

// Capabilities implements driver.Map.
func (m *documentMap) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	if m.resolver.Remote() {
		c.Latency = driver.Remote
	}
	return c
}

// Close implements driver.Map.
func (m *documentMap) Close(ctx context.Context) error { return m.resolver.Close(ctx) }
