package dataset

import (
	"cmp"
	"context"
	"log/slog"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Open opens the existing dataset at a location, which core/open infers from a URL. It may
// also be the location of a group inside a dataset, even of a group without documents.
// Open then finds the dimensions that the group's variables share with groups above it.
// The caller must not change loc before it closes the dataset.
//
// Errors: ncerr.ErrNoDataset if nothing exists at the location,
// ncerr.ErrNotZarr if something other than a dataset exists there, ncerr.ErrMetadata for
// a damaged root document, and those of the store. A group or variable that cannot be
// read is left out: see [Dataset.Problems].
func Open(ctx context.Context, loc *ncurl.Location, o *Options) (*Dataset, error) {
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	return openUnclaimed(ctx, loc, opts)
}

// openOrParent opens the dataset at a location. If the location is a group inside a
// dataset, it opens that dataset.
func openOrParent(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	ds, err := openAt(ctx, loc, opts)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset && opts.isLocal(ctx, loc) {
		if dir := place.Interrupted(filepath.FromSlash(loc.Path)); dir != "" {
			err = interrupted("open", loc.Path, dir)
		}
	}
	if err == nil {
		err = ds.checkVisible(ctx)
	}
	if ncerr.KindOf(err) == ncerr.ErrNotZarr { // a group without documents is visible only from the groups above it
		if whole, aerr := datasetAbove(ctx, loc, opts); whole != nil || aerr != nil {
			return whole, aerr
		}
	}
	if err != nil {
		return nil, replacedError(ctx, loc, opts, err)
	}
	return ds.openParent(ctx)
}

// checkVisible closes the dataset and fails if the location is claimed. It skips this check
// if the root has a document that a replacement removes first.
func (d *Dataset) checkVisible(ctx context.Context) error {
	if d.isLocal() {
		return nil
	}
	if name := d.rootDoc(); name == zarr.ConsolidatedDoc || zarr.IsNodeDoc(name) {
		return nil
	}
	return d.checkUnclaimed(ctx)
}

// complete checks and completes the options for an operation at a location, and logs the
// warnings about its URL.
func (o *Options) complete(loc *ncurl.Location) (Options, error) {
	if o == nil || o.Registry == nil {
		return Options{}, ncerr.Errorf(ncerr.ErrInvalid, "open", loc.Display, "Options.Registry is not set")
	}
	opts := *o
	opts.Limits = opts.Limits.withDefaults()
	opts.setBudget()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	for _, w := range loc.Warnings {
		opts.Log.Warn(w, "url", loc.Display)
	}
	if loc.Format == ncurl.Bytes {
		return opts, ncerr.Errorf(ncerr.ErrUnsupported, "open", loc.Display, "byte-range access to netCDF-3 and HDF5 files is not supported")
	}
	return opts, nil
}

// openStore opens the store of a location.
func openStore(ctx context.Context, loc *ncurl.Location, opts Options, mode driver.Mode) (*store.Store, error) {
	return store.Open(ctx, loc, mode, opts.Store())
}

// Store returns the options for opening the store of a dataset.
func (o *Options) Store() *store.Options {
	return &store.Options{
		Registry: o.Registry, DriverOptions: o.DriverOptions, Documents: zarr.DocNames(), Wrap: o.Wrap, Remote: o.Remote,
		MaxList: o.Limits.MaxKeys, MaxListBytes: o.Limits.MaxListing,
	}
}

// OpenStore opens the store at a location for reading, with the options of a dataset.
// Opening a store on a server sends no request, so the store need not exist.
func OpenStore(ctx context.Context, loc *ncurl.Location, o *Options) (*store.Store, error) {
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	return openStore(ctx, loc, opts, driver.Read)
}

// newDataset opens the store of a location and returns a dataset without metadata. It
// reads nothing from the store.
func newDataset(ctx context.Context, loc *ncurl.Location, opts Options, mode driver.Mode) (*Dataset, error) {
	s, err := openStore(ctx, loc, opts, mode)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{loc: loc, store: s, m: s.Map, opts: opts, log: opts.Log, noXarray: !loc.Xarray, docs: documents{all: !s.ReadOnly()}}
	ds.setChunkCache()
	if !s.ReadOnly() {
		ds.buffer = array.NewWriteBuffer(cmp.Or(opts.WriteBuffer, DefaultWriteBuffer), opts.Budget)
	}
	return ds, nil
}

func (d *Dataset) setChunkCache() {
	d.cache = array.NewCache(cmp.Or(d.opts.ChunkCache, DefaultChunkCache), d.opts.Budget.Cache())
}

// openAt opens the dataset whose root is exactly at the location.
func openAt(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	mode := driver.Read
	if opts.Update {
		mode = driver.Update
		warnHardLinks(ctx, loc, opts)
	}
	ds, err := newDataset(ctx, loc, opts, mode)
	if err != nil {
		return nil, err
	}
	if err := (&loader{ds: ds}).loadAll(ctx); err != nil {
		_ = ds.m.Close(ctx) // the first error is more useful
		return nil, err
	}
	return ds, nil
}

// loadAll reads all metadata and completes the dataset.
func (l *loader) loadAll(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return ncerr.Wrap("open", l.ds.loc.Path, err)
	}
	if err := l.decideConsolidated(ctx); err != nil {
		return err
	}
	l.ds.setStored(l.ds.lengths())
	return nil
}

// decideConsolidated determines whether consolidated metadata is current or must be
// kept up to date.
func (l *loader) decideConsolidated(ctx context.Context) (err error) {
	d := l.ds
	switch {
	case d.consolidated:
	case d.opts.UseConsolidated == ConsolidatedVerify:
		err = d.verifyConsolidated(ctx)
	case d.opts.Update && d.layout.Inline():
		if d.consolidated = zarr.CanUpdateInline(d.top.docsInStore); d.consolidated {
			err = d.keepUnlisted(ctx)
		}
	case d.opts.Update:
		if !l.consolidatedChecked {
			l.findConsolidated(ctx)
		}
		d.consolidated, err = l.hasConsolidated, l.consolidatedErr
	}
	return err
}

// openParent looks for the root of a dataset that was opened at one of its groups. It
// returns that dataset with the group as its Root.
func (d *Dataset) openParent(ctx context.Context) (*Dataset, error) {
	if !d.isSubgroup() {
		return d, nil
	}
	whole, err := datasetAbove(ctx, d.loc, d.opts)
	switch {
	case err != nil:
		_ = d.m.Close(ctx) // the first error is more useful
		return nil, err
	case whole == nil: // the group is not part of a dataset above
		return d, nil
	}
	_ = d.m.Close(ctx) // it was only read
	return whole, nil
}

// datasetAbove returns the dataset above loc that contains a group at loc, with that
// group as its Root, or nil. Directories in between need no group documents.
// datasetAbove searches only with drivers whose stores can lie inside one another, which
// plugin drivers never are: they must not access locations above the one that the user
// specified.
func datasetAbove(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	if !store.Describe(ctx, opts.Registry, loc).Nested {
		return nil, nil
	}
	dir, below := path.Clean(loc.Path), ""
	for {
		up := path.Dir(dir)
		if up == dir || up == "." {
			return nil, nil // reached the top
		}
		below = strings.TrimSuffix(path.Join(path.Base(dir), below), "/")
		dir = up
		at := *loc
		at.Path = dir
		whole, err := openAt(ctx, &at, opts)
		if err == nil {
			err = whole.checkVisible(ctx)
		}
		switch kind := ncerr.KindOf(err); {
		case ncerr.IsContext(err):
			return nil, err
		case kind == ncerr.ErrNotZarr:
			continue
		case err != nil:
			return nil, nil //nolint:nilerr // the group is not part of this dataset
		}
		if g := whole.top.walk(below); g != nil && !whole.isSubgroup() {
			whole.root, whole.loc = g, loc
			return whole, nil
		}
		if err := whole.m.Close(ctx); err != nil {
			return nil, nil //nolint:nilerr // as above
		}
	}
}

// isSubgroup reports whether the top group has NCZarr's group block but lacks the
// superblock that every root has.
func (d *Dataset) isSubgroup() bool {
	m := d.top.meta
	return m != nil && m.Listed && m.Superblock == ""
}
