package nczarr

import (
	"context"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A replacement in a bucket changes the documents of the root first and last, but
// those below it only after the chunks. An array, or a group without superblock,
// that is opened by its own URL may be part of a dataset above, whose documents it
// does not read. So it looks for the claim of a replacement at each prefix above:
//
//   - when it is opened, with the first request for its documents: a replacement puts
//     them one by one, and long before it ends;
//   - before its own documents are compared with what they were. If the replacement
//     has not begun by then, what was read is of the old dataset; if it has ended,
//     the documents differ. In the other order a whole replacement could come in
//     between.

// upper is the top of the bucket of a dataset, where the claims above it are.
type upper struct {
	loc  *ncurl.Location // of the bucket
	m    *zmap.Map
	keys []string // of the claims
}

// openUpper returns the top of the bucket of a location, or nil if nothing is
// above that, or it cannot be opened. It asks the store nothing.
func openUpper(ctx context.Context, loc *ncurl.Location, opts Options) (*upper, error) {
	bucket, dir, _ := strings.Cut(strings.TrimRight(loc.Path, "/"), "/")
	if loc.Driver != ncurl.DriverS3 || dir == "" {
		return nil, nil // nothing is above
	}
	top := *loc
	top.Path = bucket
	u := &upper{loc: &top}
	for dir != "" {
		dir, _ = splitKey(dir)
		if key := docKey(dir, zarr.ReplacingMark); zmap.ValidKey(key) == nil {
			u.keys = append(u.keys, key)
		}
	}
	opts.Remote.Cache = nil // what is in the store counts
	ds, err := newDataset(ctx, &top, opts, driver.Read)
	if cannotTell(err) {
		return nil, nil // as if nothing was above
	}
	if err != nil {
		return nil, err
	}
	u.m = ds.m
	return u, nil
}

// unclaimed fails if a dataset at a prefix above is being replaced. It looks at
// all prefixes at once.
func (u *upper) unclaimed(ctx context.Context, op string) error {
	if u == nil {
		return nil
	}
	return each(ctx, u.keys, len(u.keys), func(key string) error {
		claim, err := readClaim(ctx, u.m, key)
		if cannotTell(err) || err == nil && (claim == nil || claim.Makes) { // who makes a dataset replaces nothing, and that claim may stay
			return nil
		}
		at := *u.loc
		dir, _ := splitKey(key)
		at.Path = docKey(u.loc.Path, dir)
		return claimed(op, &at, claim, err)
	})
}

func (u *upper) close(ctx context.Context) {
	if u != nil {
		_ = u.m.Close(ctx) // only read
	}
}

// cannotTell reports whether an error is that of a prefix that the caller may not
// read, or cannot.
func cannotTell(err error) bool {
	switch ncerr.KindOf(err) {
	case ncerr.ErrPermission, ncerr.ErrAuth, ncerr.ErrUnsupported, ncerr.ErrNoDataset:
		return true
	}
	return false
}

// mayBePart reports whether the dataset may be part of one above it: it has no
// superblock, as every root of NCZarr has.
func (d *Dataset) mayBePart() bool {
	return d.top.meta == nil || d.top.meta.Superblock == ""
}

// openUnclaimed opens the dataset at a location unless one above it is being
// replaced.
func openUnclaimed(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	up, err := openUpper(ctx, loc, opts)
	if err != nil {
		return nil, err
	}
	ds, err := up.guard(ctx, loc, opts)
	if err == nil && up != nil && ds.mayBePart() {
		ds.up = up
	} else {
		up.close(ctx)
	}
	return ds, err
}

// guard opens the dataset, and looks for the claims at the same time if it may be
// part of another one. Where the URL says NCZarr, it most likely is not, and the look
// comes after. As that says nothing of what was read before, it is read again.
func (u *upper) guard(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	var claim error
	asks := !loc.FormatGiven || loc.Format == ncurl.Zarr
	wait := beside(ctx, func(ctx context.Context) {
		if asks {
			claim = u.unclaimed(ctx, "open")
		}
	})
	ds, err := openOrClimb(ctx, loc, opts)
	kind := ncerr.KindOf(err)
	part := u != nil && (kind == ncerr.ErrNotZarr || kind == ncerr.ErrNoDataset || err == nil && ds.mayBePart())
	wait(part)
	if !part {
		return ds, err
	}
	if !asks {
		claim = u.unclaimed(ctx, "open")
	}
	switch {
	case claim == nil && (asks || err != nil):
		return ds, err
	case err == nil:
		_ = ds.m.Close(ctx) // only read
	case ncerr.KindOf(claim) != ncerr.ErrConflict:
		return nil, err
	}
	if claim != nil {
		return nil, claim
	}
	return openOrClimb(ctx, loc, opts)
}
