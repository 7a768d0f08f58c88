package nczarr

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
)

// Dataset is an open dataset. It embeds its root group.
type Dataset struct {
	*Group
	core  *dataset.Dataset
	ended bool // Close or Abort was called
}

// Open opens an existing dataset. url is a path ("ocean.zarr", "ocean.zip") or a URL
// ("https://host/ocean.zarr", "s3://bucket/key"). It may also locate a group inside a
// dataset. If the metadata can be read both as Zarr and as NCZarr, "#mode=zarr" or
// "#mode=nczarr" at the end of the URL selects one. Open reads no array data.
//
// Errors: [ErrNoDataset] if nothing exists at url, [ErrNotZarr] if something other than a
// dataset exists there, [ErrMetadata] for a damaged root document, [ErrBadURL],
// [ErrInvalid] for a bad option, and errors of the store. Open leaves out groups and
// variables that it cannot interpret: see [Dataset.Problems].
func Open(ctx context.Context, url string, opts ...Option) (*Dataset, error) {
	c, err := gather(opts)
	if err == nil && c.creates != "" {
		err = ncerr.Errorf(ErrInvalid, "", "", "%s is an option of Create, not of Open", c.creates)
	}
	var ds *dataset.Dataset
	if err == nil {
		ds, err = open.Open(ctx, url, &c.Options)
	}
	return newDataset(ds, wrapError("open", ncurl.Masked(url), err))
}

// Create creates a dataset and opens it for writing. url is as in [Open]. If it ends in
// .zip, the dataset is a zip archive. Readers do not see the dataset before the first
// Flush or Close. If the program crashes before then, no dataset is created.
//
// Errors: [ErrExists] if a dataset (see [Replace]) or something else (see [Force])
// exists at url, [ErrConflict] if another program is creating one there, and those of
// [Open].
func Create(ctx context.Context, url string, opts ...Option) (*Dataset, error) {
	c, err := gather(opts)
	if err == nil && c.opens != "" {
		err = ncerr.Errorf(ErrInvalid, "", "", "%s is an option of Open, not of Create", c.opens)
	}
	var ds *dataset.Dataset
	if err == nil {
		ds, err = open.Create(ctx, url, &c.CreateOptions)
	}
	err = wrapError("create", ncurl.Masked(url), err)
	if e, ok := errors.AsType[*ncerr.Error](err); ok && e.Kind == ErrExists && e.Err != nil && !c.Force {
		hinted := *e
		hinted.Err = fmt.Errorf("%w (the option Replace replaces a dataset, and Force replaces anything)", e.Err)
		err = &hinted
	}
	return newDataset(ds, err)
}

func newDataset(ds *dataset.Dataset, err error) (*Dataset, error) {
	if err != nil {
		return nil, err
	}
	return &Dataset{Group: &Group{ds.Root()}, core: ds}, nil
}

// Core returns the underlying dataset of core/dataset. It offers what this package does
// not: consolidated metadata, access to the store, checks for other writers.
func (d *Dataset) Core() *dataset.Dataset { return d.core }

// Problem is a group or variable that [Open] could not interpret.
type Problem struct {
	Path string // absolute name, such as "/g/temp"
	Err  error  // the reason; it has a kind
}

// Problems returns the groups and variables that [Open] left out. A write preserves
// them in the store.
func (d *Dataset) Problems() []Problem {
	var out []Problem
	for _, p := range d.core.Problems() {
		out = append(out, Problem(p))
	}
	return out
}

// Flush stores everything written so far, metadata last. A dataset that replaces another
// one becomes visible only at Close. If Flush fails, the data that it could not store
// stays in memory, and the next Flush tries again. Flush does nothing if the dataset is
// open for reading. Errors: [ErrConflict] if another program changed the same metadata;
// [ErrCorrupt] or [ErrFilter] if a chunk that was written in part cannot be decoded or
// encoded (everything else may then have been stored); and errors of the store.
func (d *Dataset) Flush(ctx context.Context) error { return d.core.Flush(ctx) }

// Refresh discards cached chunks and shard indexes, so that later reads fetch them from
// the store again. Without Refresh, a chunk of which a part has been read keeps the
// content it had at the time of that read, even if another program changes it. Writes
// to the dataset itself are always visible. Refresh does not read metadata again: open
// the dataset again to see new variables and lengths. See also [ChunkCache].
func (d *Dataset) Refresh() { d.core.Refresh() }

// Close stores everything written so far. It releases the dataset even if it returns an
// error. Written data is complete only if Close returns nil. If Close fails, it discards
// the data that it could not store. To be able to retry, call Flush first. A failed Close
// also removes a dataset that [Create] created and that was never flushed, as
// [Dataset.Abort] does. Errors: those of [Dataset.Flush]. See also [Dataset.Finish].
func (d *Dataset) Close(ctx context.Context) error {
	d.ended = true
	err := d.core.Close(ctx)
	if err != nil {
		_ = d.core.Abort(context.WithoutCancel(ctx)) // the error of Close is more useful
	}
	return err
}

// Abort releases the dataset without storing metadata. It removes a dataset that [Create]
// created and that was never flushed. An existing dataset that this one would have
// replaced remains. In a dataset opened with [Writable], chunks that are already stored
// remain: overwritten values cannot be restored.
func (d *Dataset) Abort(ctx context.Context) error {
	d.ended = true
	return d.core.Abort(ctx)
}

// Finish closes or aborts a dataset in a deferred call:
//
//	defer ds.Finish(ctx, &err)
//
// If *err is nil, Finish calls [Dataset.Close] and assigns its error to *err. If *err
// is not nil, or during a panic, it calls [Dataset.Abort] and adds an error of Abort to
// *err. err must be the named result of the function, so that the caller sees the error
// of Close. Finish aborts even if ctx is done. It does nothing after Close or Abort,
// and on a nil Dataset.
//
// Finish must be deferred directly, as above. Called from a deferred closure, it does
// not detect a panic and closes a dataset that may be half written. It does not detect
// runtime.Goexit either, which testing.T.FailNow and Fatal call: it then closes the
// dataset if *err is nil.
func (d *Dataset) Finish(ctx context.Context, err *error) {
	if d == nil || d.ended {
		return
	}
	if p := recover(); p != nil {
		_ = d.Abort(context.WithoutCancel(ctx)) // the panic is more useful
		panic(p)
	}
	if *err == nil {
		*err = d.Close(ctx)
		return
	}
	if aerr := d.Abort(context.WithoutCancel(ctx)); aerr != nil {
		*err = fmt.Errorf("%w (and aborting failed: %s)", *err, aerr.Error())
	}
}
