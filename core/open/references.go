package open

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/refs"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// maxPages is the maximum size in bytes of the references that a dataset caches. A reference
// with templates can be hundreds of times as large as its text.
const maxPages = 16 << 20

// references returns the dataset that a reference file describes.
func references(ctx context.Context, loc *ncurl.Location, o *dataset.Options) (*dataset.Tree, error) {
	resolver, err := store.NewResolver(ctx, loc, o.URLEnv, o.References, o.Store())
	if err != nil {
		return nil, err
	}
	tree, err := readReferences(ctx, resolver, o)
	if err != nil {
		_ = resolver.Close(ctx) // the first error is more useful
	}
	return tree, err
}

// readReferences reads the reference file and the documents in it.
func readReferences(ctx context.Context, resolver *store.Resolver, o *dataset.Options) (*dataset.Tree, error) {
	text, _, err := resolver.Root().ReadAll(ctx, resolver.File(), o.Limits.MaxDocuments)
	if err != nil {
		if ncerr.KindOf(err) == ncerr.ErrNotFound {
			err = ncerr.Errorf(ncerr.ErrNoDataset, "", "", "the reference file does not exist")
		}
		return nil, err
	}
	file, err := refs.Parse(text, refs.Limits{MaxKeys: o.Limits.MaxKeys, MaxDocument: o.Limits.MaxMetadata})
	if err != nil {
		return nil, err
	}
	docs := &documentMap{Map: memmap.New(), resolver: resolver}
	for key, text := range file.Documents() {
		if _, err := docs.Put(ctx, key, driver.Bytes(text), &driver.PutOptions{}); err != nil {
			return nil, ncerr.Wrap("parse", zmap.Path(key), err)
		}
	}
	cache := budget.NewShare(min(maxPages, o.Budget.Documents())) // for the references of all arrays
	return &dataset.Tree{
		Documents: zmap.New(docs, &zmap.Options{Name: "kerchunk", ReadOnly: true, MaxList: o.Limits.MaxKeys, MaxListBytes: o.Limits.MaxListing}),
		Store:     resolver.Root(),
		Key:       resolver.File(),
		Chunks: func(prefix string, keys chunk.Keys, grid []int64) manifest.Source {
			return file.Table(prefix, keys, grid, resolver, cache, o.Limits.MaxChunk)
		},
	}, nil
}

// documentMap holds the documents of a reference file. It reports the latency of the stores
// that references may refer to, because the array engine takes the latency of chunks from it.
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
