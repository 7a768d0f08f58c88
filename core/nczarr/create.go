package nczarr

import (
	"context"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Create makes a new dataset and opens it for writing. A dataset that is at the
// location is replaced, unless NoClobber is set. Anything that does not belong
// to it is listed in the error and left alone, and so is a place inside another
// dataset, unless Force is set.
//
// Nothing becomes visible as a dataset before the first Flush (or Close):
// until then a process that dies leaves no dataset behind. A dataset that
// replaces another one is made beside it and takes its place at Close, when
// all of it is durable, whatever the driver's options say; until then readers
// see the old one, and Abort leaves it there. A driver that cannot do that
// replaces nothing unless Force is set; then the old one is gone at once.
//
// Of two that make a dataset at one new place the second is refused: until the
// first Flush a local directory is locked, and a store with conditional writes
// has an object that names the process (see [FindClaim]). Where neither is
// possible, nobody is kept away.
//
// Errors: ncerr.ErrExists when a dataset, or something else, is in the way,
// ncerr.ErrConflict when somebody else is making a dataset there, and those of
// [Open].
func Create(ctx context.Context, url string, o *CreateOptions) (*Dataset, error) {
	if o == nil {
		o = &CreateOptions{}
	}
	opts, loc, err := resolve(url, &o.Options, true)
	if err != nil {
		return nil, err
	}
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
		ds.ncProperties = zarr.NCProperties(Version)
	}
	return ds, nil
}

// newStore makes the store of a new dataset, and claims its place. A store that
// was just seen to be bare is not emptied: what came meanwhile is not ours.
func (s *site) newStore(ctx context.Context, loc *ncurl.Location, opts Options, exclusive, force bool) (*Dataset, error) {
	at := *loc
	at.Path = s.at
	mode := driver.Create
	_, staged := s.swap.(*staged)
	switch {
	case staged && loc.Driver == ncurl.DriverFile, s.bare: // it is empty: there is nothing to wipe
		mode = driver.Update
	case exclusive, s.free, staged: // what comes meanwhile is not mixed with, nor wiped
		mode = driver.CreateExclusive
	}
	ds, err := newDataset(ctx, &at, opts, mode)
	if s.bare && ncerr.KindOf(err) == ncerr.ErrNoDataset {
		ds, err = newDataset(ctx, &at, opts, driver.CreateExclusive)
	}
	if s.free && !exclusive && ncerr.KindOf(err) == ncerr.ErrExists {
		err = errCame(loc)
	}
	if err == nil {
		ds.loc, ds.swap, ds.making.hold = loc, s.swap, s.hold
		if err = s.claim(ctx, ds, force); err != nil {
			_ = ds.m.Close(ctx) // the first error says more
		}
	}
	if err != nil {
		s.hold.Release()
		if s.swap != nil {
			err = alsoFailed(err, s.swap.discard(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return ds, nil
}

// claim sees to it that nobody else makes a dataset in the store of ds.
func (s *site) claim(ctx context.Context, ds *Dataset, force bool) (err error) {
	swap, beside := s.swap.(*sibling)
	switch {
	case beside:
		return swap.mark(ctx, ds.m)
	case s.swap != nil:
	case local(ds.loc):
		if s.free && ds.loc.Driver == ncurl.DriverFile {
			ds.making.hold, err = holdEmpty(ds.loc, ds.opts.Limits)
		}
		if err == nil && !force { // who holds a directory above lists it after that
			if err = outsideDatasets(filepath.FromSlash(ds.loc.Path)); err != nil {
				ds.making.hold.Release()
			}
		}
	default:
		err = ds.claimPlace(ctx, force)
	}
	return err
}

// layoutFor gives the layout of a new dataset, and makes the format of its
// location that of the layout.
func layoutFor(loc *ncurl.Location, o *CreateOptions) (zarr.Layout, error) {
	if o.Layout == nil {
		if loc.Format == ncurl.Zarr {
			return zarr.FormatLayout(loc.Version), nil
		}
		return zarr.LayoutNewest, nil
	}
	if loc.Version != 0 && loc.Version != o.Layout.Format() {
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "create", loc.Display, "the URL asks for Zarr v%d, the layout is %s", loc.Version, *o.Layout)
	}
	format := ncurl.NCZarr
	if !o.Layout.NCZarr() {
		format = ncurl.Zarr
	}
	if loc.FormatGiven && loc.Format != format {
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "create", loc.Display, "the URL asks for format %s, the layout is %s", loc.Format, *o.Layout)
	}
	loc.Format = format
	return *o.Layout, nil
}
