package main

import (
	"context"
	"fmt"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/store"
)

// create creates the dataset at url.
func (a *app) create(ctx context.Context, f *createFlags, url string) (*dataset.Dataset, error) {
	strs, ok := stringStorages[f.strings]
	if !ok {
		return nil, &usageError{fmt.Errorf("--strings must be auto, fixed or vlen, not %s", f.strings)}
	}
	if _, err := a.start(ctx, url); err != nil {
		return nil, err
	}
	ds, err := open.Create(ctx, url, &dataset.CreateOptions{
		Options: *a.options(), NoClobber: !f.overwrite, Force: f.force, Consolidated: f.consolidated,
		Layout: f.layout.layout, NoXarray: f.layout.noXarray, Strings: strs,
	})
	switch {
	case ncerr.KindOf(err) != ncerr.ErrExists:
	case !f.force:
		err = fmt.Errorf("%w (see --overwrite and --force)", err)
	case !f.overwrite:
		err = fmt.Errorf("%w (see --overwrite)", err)
	}
	return ds, err
}

// abort discards the unfinished dataset ds and returns err.
func abort(ctx context.Context, ds *dataset.Dataset, err error) error {
	if aerr := ds.Abort(context.WithoutCancel(ctx)); aerr != nil {
		return fmt.Errorf("%w (and cleaning up failed: %w)", err, aerr)
	}
	return err
}

// closeNew completes a new dataset and makes it visible, or discards it on failure.
func closeNew(ctx context.Context, ds *dataset.Dataset) error {
	if err := ds.Close(ctx); err != nil {
		return abort(ctx, ds, err)
	}
	return nil
}

// locate parses a URL or path into a Location. create is set for a new dataset.
func (a *app) locate(url string, create bool) (*ncurl.Location, error) {
	return open.Locate(url, a.session.Options(), create)
}

// isLocal reports whether a location is a local directory or archive.
func (a *app) isLocal(ctx context.Context, loc *ncurl.Location) bool {
	d := store.Describe(ctx, a.session.Host(), loc)
	return store.IsLocal(&d)
}
