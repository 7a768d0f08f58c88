package nczarr

import (
	"context"
	"path"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Create makes a new dataset and opens it for writing. What was at the
// location before is replaced, unless NoClobber is set; but something that is
// no dataset is refused unless Force is set, and so is a place inside
// another dataset.
//
// Nothing becomes visible as a dataset before the first Flush (or Close):
// until then a process that dies leaves no dataset behind.
//
// Errors: ncerr.ErrExists when a dataset, or something else, is in the way,
// and those of [Open].
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
	bare, err := clearToCreate(ctx, loc, opts, o)
	if err != nil {
		return nil, err
	}
	ds, err := newStore(ctx, loc, opts, o.NoClobber, bare)
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
	if layout != zarr.LayoutPure {
		ds.ncProperties = zarr.NCProperties(Version)
	}
	return ds, nil
}

// newStore makes the store of a new dataset. One that takes its time, and was
// just seen to be bare, need not be looked through again to be emptied.
func newStore(ctx context.Context, loc *ncurl.Location, opts Options, exclusive, bare bool) (*Dataset, error) {
	if exclusive {
		return newDataset(ctx, loc, opts, driver.CreateExclusive)
	}
	if bare {
		ds, err := newDataset(ctx, loc, opts, driver.Update)
		if ncerr.KindOf(err) != ncerr.ErrNoDataset {
			return ds, err
		}
	}
	return newDataset(ctx, loc, opts, driver.Create)
}

// layoutFor gives the layout of a new dataset, and makes the format of its
// location that of the layout.
func layoutFor(loc *ncurl.Location, o *CreateOptions) (zarr.Layout, error) {
	if o.Layout == nil {
		if loc.Format == ncurl.Zarr {
			return zarr.LayoutPure, nil
		}
		return zarr.LayoutNewest, nil
	}
	format := ncurl.NCZarr
	if *o.Layout == zarr.LayoutPure {
		format = ncurl.Zarr
	}
	if loc.FormatGiven && loc.Format != format {
		return 0, ncerr.Errorf(ncerr.ErrInvalid, "create", loc.Display, "the URL asks for format %s, the layout is %s", loc.Format, *o.Layout)
	}
	loc.Format = format
	return *o.Layout, nil
}

// clearToCreate looks at what is at, and above, the place of a new dataset. It
// reports whether a remote store is there that has nothing in it.
func clearToCreate(ctx context.Context, loc *ncurl.Location, opts Options, o *CreateOptions) (bare bool, err error) {
	bare, err = checkTarget(ctx, loc, opts, o)
	if err != nil || o.Force || loc.Driver != ncurl.DriverFile && loc.Driver != ncurl.DriverZip {
		return bare, err
	}
	up := *loc
	up.Driver = ncurl.DriverFile
	for dir := path.Dir(path.Clean(loc.Path)); ; dir = path.Dir(dir) {
		up.Path = dir
		if is, err := isDataset(ctx, &up, opts); err != nil {
			return false, err
		} else if is {
			return false, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "the place is inside the dataset %q: a dataset in a dataset would be mistaken for a part of it", dir)
		}
		if dir == path.Dir(dir) || dir == "." {
			return false, nil
		}
	}
}

// checkTarget decides about what is already at the location, and reports
// whether a remote store is there that has nothing in it.
func checkTarget(ctx context.Context, loc *ncurl.Location, opts Options, o *CreateOptions) (bare bool, err error) {
	ds, err := newDataset(ctx, loc, opts, driver.Read)
	switch ncerr.KindOf(err) {
	case 0:
		if err != nil { // a context error
			return false, err
		}
	case ncerr.ErrNoDataset:
		return false, nil
	case ncerr.ErrCorrupt, ncerr.ErrNotZarr:
		if o.Force {
			return false, nil
		}
		return false, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "something that is no dataset is there: %w", err)
	default:
		return false, err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // only read
	names, err := ds.m.Search(ctx, "")
	switch {
	case ncerr.KindOf(err) == ncerr.ErrUnsupported:
		return false, nil
	case err != nil:
		return false, err
	case len(names) == 0:
		return ds.remote(), nil
	}
	if !hasRootDoc(names) && !o.Force {
		return false, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "something that is no dataset is there")
	}
	if o.NoClobber {
		return false, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "a dataset is there")
	}
	return false, nil
}

// isDataset reports whether a directory is the root of, or a group in, a
// dataset.
func isDataset(ctx context.Context, loc *ncurl.Location, opts Options) (bool, error) {
	opts.DriverOptions = nil
	ds, err := newDataset(ctx, loc, opts, driver.Read)
	if err != nil {
		if ncerr.IsContext(err) {
			return false, err
		}
		return false, nil // nothing there, or nothing that we may look into
	}
	defer ds.m.Close(ctx) //nolint:errcheck // only read
	for _, name := range []string{".zgroup", ".zarray", "zarr.json"} {
		there, err := ds.m.Exists(ctx, name)
		if there || ncerr.IsContext(err) {
			return there, err
		}
	}
	return false, nil
}

func hasRootDoc(names []string) bool {
	for _, n := range names {
		if zarr.IsZarrDoc(n) {
			return true
		}
	}
	return false
}
