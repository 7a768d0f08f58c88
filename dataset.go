package nczarr

import (
	"context"
	"fmt"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Dataset is an open dataset. It embeds its root group.
type Dataset struct {
	*Group
	core  *nczarr.Dataset
	ended bool // by Close or Abort
}

// Open opens an existing dataset. url is a path ("ocean.zarr", "ocean.zip") or
// a URL ("https://host/ocean.zarr", "s3://bucket/key"); "#mode=zarr" or
// "#mode=nczarr" at its end says how metadata is read if it can be read both
// ways. A group inside a dataset may be named too. Arrays are not read.
//
// Errors: [ErrNoDataset] if nothing is there, [ErrNotZarr] if it is something
// else, [ErrMetadata] for a damaged root document, [ErrBadURL], [ErrInvalid] for
// an option, and those of the store. A group or variable that cannot be
// understood is left out: see [Dataset.Problems].
func Open(ctx context.Context, url string, opts ...Option) (*Dataset, error) {
	c, err := gather(opts)
	if err == nil && c.creates != "" {
		err = ncerr.Errorf(ErrInvalid, "", "", "%s is an option of Create", c.creates)
	}
	if err != nil {
		return nil, ncerr.Wrap("open", ncurl.Masked(url), err)
	}
	ds, err := nczarr.Open(ctx, url, &c.Options)
	return newDataset(ds, err)
}

// Create makes a new dataset and opens it for writing. url is as in [Open]; the
// name ends in .zip for a zip archive. Readers see no dataset before the first
// Flush or Close, and a program that dies before leaves none behind.
//
// Errors: [ErrExists] if a dataset is there (see [Replace]) or something else
// (see [Force]), [ErrConflict] if another program is making one there, and those
// of [Open].
func Create(ctx context.Context, url string, opts ...Option) (*Dataset, error) {
	c, err := gather(opts)
	if err == nil && c.opens != "" {
		err = ncerr.Errorf(ErrInvalid, "", "", "%s is an option of Open", c.opens)
	}
	if err != nil {
		return nil, ncerr.Wrap("create", ncurl.Masked(url), err)
	}
	ds, err := nczarr.Create(ctx, url, &c.CreateOptions)
	if ncerr.KindOf(err) == ErrExists && !c.Force {
		err = ncerr.Errorf(ErrExists, "", "", "%w (the option Replace replaces a dataset, Force anything)", err)
	}
	return newDataset(ds, err)
}

func newDataset(ds *nczarr.Dataset, err error) (*Dataset, error) {
	if err != nil {
		return nil, err
	}
	return &Dataset{Group: &Group{ds.Root()}, core: ds}, nil
}

// Core returns the dataset of core/nczarr, for what this package leaves out:
// consolidated metadata, the store, checks of other writers.
func (d *Dataset) Core() *nczarr.Dataset { return d.core }

// Problem is a group or variable that cannot be understood.
type Problem struct {
	Path string // the absolute name, such as "/g/temp"
	Err  error  // why, with its kind
}

// Problems returns what was left out when the dataset was opened. It stays in
// the store when the rest is written.
func (d *Dataset) Problems() []Problem {
	var out []Problem
	for _, p := range d.core.Problems() {
		out = append(out, Problem(p))
	}
	return out
}

// Flush stores everything that was written so far, metadata last. A dataset that
// replaces another becomes visible at Close only. It does nothing in a dataset
// opened for reading. Errors: [ErrConflict] if another program changed the same
// metadata, and those of the store.
func (d *Dataset) Flush(ctx context.Context) error { return d.core.Flush(ctx) }

// Close stores everything that was written and releases the dataset. It is
// released even if Close fails; what was written is complete only if Close
// returns nil. If it fails, a dataset that [Create] made, and that was never
// flushed, is removed as by [Dataset.Abort]. Errors are those of [Dataset.Flush].
// See [Dataset.Finish].
func (d *Dataset) Close(ctx context.Context) error {
	d.ended = true
	err := d.core.Close(ctx)
	if err != nil {
		_ = d.core.Abort(context.WithoutCancel(ctx)) // why Close failed says more
	}
	return err
}

// Abort releases the dataset without storing metadata. A dataset that [Create]
// made, and that was never flushed, is removed; one that it was to replace stays.
// Of a dataset opened with [Writable] the chunks that are already stored stay:
// values written over others cannot be taken back.
func (d *Dataset) Abort(ctx context.Context) error {
	d.ended = true
	return d.core.Abort(ctx)
}

// Finish ends the use of a dataset in a deferred call:
//
//	defer ds.Finish(ctx, &err)
//
// If *err is nil it closes the dataset, and *err becomes the error of
// [Dataset.Close]. Otherwise, and in a panic, it aborts the dataset, as
// [Dataset.Abort] describes, and adds an error of that to *err. err must be the
// named result of the function: then no error of closing gets lost. Aborting does
// not stop when ctx is done. After Close or Abort, and on a nil Dataset, Finish
// does nothing.
//
// Finish must be deferred itself, as above: called by a deferred closure, it does
// not see a panic, and closes a dataset that may be half written. Nor does it see
// runtime.Goexit, which testing.T.FailNow and Fatal call: it closes the dataset
// then too, unless *err says otherwise.
func (d *Dataset) Finish(ctx context.Context, err *error) {
	if d == nil || d.ended {
		return
	}
	if p := recover(); p != nil {
		_ = d.Abort(context.WithoutCancel(ctx)) // the panic says more
		panic(p)
	}
	if *err == nil {
		*err = d.Close(ctx)
		return
	}
	if aerr := d.Abort(context.WithoutCancel(ctx)); aerr != nil {
		*err = fmt.Errorf("%w (and aborting: %s)", *err, aerr.Error())
	}
}
