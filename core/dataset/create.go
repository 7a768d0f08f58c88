package dataset

import (
	"context"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Create creates a dataset at a location, which core/open infers from a URL, and opens it
// for writing. It replaces an existing dataset at the location unless NoClobber is set.
// Unless Force is set, it refuses a location that is inside another dataset, or that
// contains entries that are not part of a dataset. The error lists those entries.
//
// Nothing is visible as a dataset before the first Flush or Close, so a process that
// dies before that leaves no dataset behind. A dataset that replaces another one is
// created next to it and replaces it at Close, after all its objects are durable,
// regardless of the driver's options. Until then readers see the old dataset, and Abort
// keeps it. If a driver does not support this, Create replaces a dataset only if Force
// is set, and then deletes the old one immediately.
//
// If two processes create a dataset at the same new location, the second one fails. If the
// first one has finished while Create of the second one was examining the location, it may
// be the first write, Flush or Close of the second one that fails with ncerr.ErrConflict,
// before it writes anything. Until the first Flush, a local directory is locked, and a store with conditional
// writes contains an object that identifies the process (see [FindClaim]). Other stores
// have no such protection.
//
// Errors: ncerr.ErrExists if a dataset or something else exists at the location,
// ncerr.ErrConflict if another process is creating a dataset there, and those of
// [Open].
func Create(ctx context.Context, loc *ncurl.Location, o *CreateOptions) (*Dataset, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	at := *loc // layoutFor changes it
	loc = &at
	layout, err := layoutFor(loc, o)
	if err != nil {
		return nil, err
	}
	to, err := choose(ctx, loc, opts, o)
	if err != nil {
		return nil, err
	}
	ds, err := to.newStore(ctx, loc, opts, o.NoClobber && !o.Force, o.Force)
	if err != nil {
		return nil, err
	}
	ds.layout, ds.created = layout, true
	ds.noXarray = ds.noXarray || o.NoXarray
	ds.strings = o.Strings
	ds.consolidated = o.Consolidated || loc.Consolidated
	ds.top = &Group{ds: ds, meta: &zarr.Group{}}
	ds.top.changes.add()
	ds.root = ds.top
	if layout.NCZarr() {
		ds.ncProperties = layout.NCProperties(Version)
	}
	return ds, nil
}

// newStore creates the store of a new dataset and claims its location. It does not
// clear a store that choose found empty, because objects that appeared since then
// belong to other processes.
func (s *site) newStore(ctx context.Context, loc *ncurl.Location, opts Options, exclusive, force bool) (*Dataset, error) {
	at := *loc
	at.Path = s.at
	mode := driver.Create
	_, staged := s.swap.(*staged)
	switch {
	case staged && store.Describe(ctx, opts.Registry, loc).Locality == driver.LocalDirectory, s.bare: // the store is empty and needs no clearing
		mode = driver.Update
	case exclusive, s.free, staged: // fail if another process creates something first
		mode = driver.CreateExclusive
	}
	ds, err := newDataset(ctx, &at, opts, mode)
	if s.bare && ncerr.KindOf(err) == ncerr.ErrNoDataset {
		ds, err = newDataset(ctx, &at, opts, driver.CreateExclusive)
	}
	if s.free && !exclusive && ncerr.KindOf(err) == ncerr.ErrExists {
		err = errNotEmpty(loc)
	}
	if err == nil {
		ds.loc, ds.swap, ds.newClaim.hold = loc, s.swap, s.hold
		if err = s.claim(ctx, ds, force); err != nil {
			_ = ds.m.Close(ctx) // the first error is more useful
		}
	}
	if err != nil {
		s.hold.Release()
		if s.swap != nil {
			err = joinCleanupError(err, s.swap.discard(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return ds, nil
}

// claim prevents other processes from creating a dataset in the store of ds.
func (s *site) claim(ctx context.Context, ds *Dataset, force bool) (err error) {
	swap, beside := s.swap.(*sibling)
	switch {
	case beside:
		return swap.mark(ctx, ds.m)
	case s.swap != nil:
	case ds.isLocal():
		if s.free && ds.store.Driver().Locality == driver.LocalDirectory {
			ds.newClaim.hold, err = lockEmpty(ds.loc, ds.opts.Limits)
		}
		if err == nil && !force { // a process that locks a directory above this location lists the directory only after locking it, so at least one of the two processes finds the other
			if err = checkOutsideDatasets(filepath.FromSlash(ds.loc.Path)); err != nil {
				ds.newClaim.hold.Release()
			}
		}
	default:
		err = ds.claimLocation(ctx, force)
	}
	return err
}

// layoutFor returns the layout of a new dataset. If o specifies the layout, layoutFor
// sets the format of loc to that of the layout and, for Zarr v3, also the version.
func layoutFor(loc *ncurl.Location, o *CreateOptions) (zarr.Layout, error) {
	if o.Layout == nil {
		return zarr.FormatLayout(loc.Version, loc.Format == ncurl.NCZarr), nil
	}
	if loc.Version != 0 && loc.Version != o.Layout.Format() {
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "create", loc.Display, "the URL selects Zarr v%d, but the layout is %s", loc.Version, *o.Layout)
	}
	format := ncurl.NCZarr
	if !o.Layout.NCZarr() {
		format = ncurl.Zarr
	}
	if loc.FormatGiven && loc.Format != format {
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "create", loc.Display, "the URL selects format %s, but the layout is %s", loc.Format, *o.Layout)
	}
	if loc.Format = format; o.Layout.Format() == 3 {
		loc.Version = 3
	}
	return *o.Layout, nil
}
