package dataset

import (
	"context"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// A replacement in a bucket changes the root's documents first and last, and those
// below the root only after the chunks. An array, or a group without a superblock, that
// is opened by its own URL may be part of a dataset above it, but its reader does not
// read the root's documents. The reader therefore looks for the claim of a replacement
// at each prefix above:
//
//  - during Open, along with the first request for documents. The replacement puts
//    documents one by one, and claims the dataset long before it ends.
//  - before it compares the documents with those that Open read. If no replacement has
//    begun by then, all data read so far belongs to the old dataset. If one has ended,
//    the documents differ. In the opposite order, a whole replacement could happen
//    between the two checks.

// upper is the bucket of a dataset, with the keys of the claims that may exist above
// the dataset.
type upper struct {
	loc  *ncurl.Location // location of the bucket
	m    *zmap.Map
	keys []string // keys of the possible claims
}

// isPrefix reports whether a location is a prefix in a bucket, and so may lie inside a
// dataset at a prefix above.
func (o *Options) isPrefix(ctx context.Context, loc *ncurl.Location) bool {
	if loc.IsFile {
		return false
	}
	d := store.Describe(ctx, o.Registry, loc)
	return d.Nested && d.Locality == driver.OnServer
}

// openUpper returns the bucket of a location, or nil if the location is not inside a
// bucket or the bucket is not accessible. It sends no requests.
func openUpper(ctx context.Context, loc *ncurl.Location, opts Options) (*upper, error) {
	bucket, dir, _ := strings.Cut(strings.TrimRight(loc.Path, "/"), "/")
	if dir == "" || !opts.isPrefix(ctx, loc) {
		return nil, nil // not below the top of a bucket
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
	opts.Remote.Cache = nil // bypass the cache
	s, err := openStore(ctx, &top, opts, driver.Read)
	if isInaccessible(err) {
		return nil, nil // assume that no dataset exists above
	}
	if err != nil {
		return nil, err
	}
	u.m = s.Map
	return u, nil
}

// checkUnclaimed fails if a dataset at a prefix above is being replaced. It checks all
// prefixes concurrently.
func (u *upper) checkUnclaimed(ctx context.Context, op string) error {
	if u == nil {
		return nil
	}
	return each(ctx, u.keys, len(u.keys), func(key string) error {
		claim, err := readClaim(ctx, u.m, key)
		if isInaccessible(err) || err == nil && (claim == nil || claim.Creates) { // a process that creates a new dataset replaces nothing
			return nil
		}
		at := *u.loc
		dir, _ := splitKey(key)
		at.Path = docKey(u.loc.Path, dir)
		return claimedError(op, &at, claim, err)
	})
}

func (u *upper) close(ctx context.Context) {
	if u != nil {
		_ = u.m.Close(ctx) // opened for reading only
	}
}

// isInaccessible reports whether an error means that a prefix is not accessible to the
// caller.
func isInaccessible(err error) bool {
	switch ncerr.KindOf(err) {
	case ncerr.ErrPermission, ncerr.ErrAuth, ncerr.ErrUnsupported, ncerr.ErrNoDataset:
		return true
	}
	return false
}

// mayBePart reports whether the dataset may be part of one above it, because it
// lacks the superblock that every NCZarr root has.
func (d *Dataset) mayBePart() bool {
	return d.top.meta == nil || d.top.meta.Superblock == ""
}

// openUnclaimed opens the dataset at a location. It fails if a dataset above it is
// being replaced.
func openUnclaimed(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	up, err := openUpper(ctx, loc, opts)
	if err != nil {
		return nil, err
	}
	ds, err := up.openGuarded(ctx, loc, opts)
	if err == nil && up != nil && ds.mayBePart() {
		ds.upper = up
	} else {
		up.close(ctx)
	}
	return ds, err
}

// openGuarded opens the dataset and, if it may be part of another one, looks for claims
// at the same time. If the URL selects NCZarr, the dataset is most likely a root, and
// openGuarded looks for claims only if it is not. This later check does not cover the
// documents that were already read, so openGuarded then opens the dataset again.
func (u *upper) openGuarded(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	var claim error
	concurrent := !loc.FormatGiven || loc.Format == ncurl.Zarr
	wait := inParallel(ctx, func(ctx context.Context) {
		if concurrent {
			claim = u.checkUnclaimed(ctx, "open")
		}
	})
	ds, err := openOrParent(ctx, loc, opts)
	kind := ncerr.KindOf(err)
	part := u != nil && (kind == ncerr.ErrNotZarr || kind == ncerr.ErrNoDataset || err == nil && ds.mayBePart())
	wait(part)
	if !part {
		return ds, err
	}
	if !concurrent {
		claim = u.checkUnclaimed(ctx, "open")
	}
	switch {
	case claim == nil && (concurrent || err != nil):
		return ds, err
	case err == nil:
		_ = ds.m.Close(ctx) // opened for reading only
	case ncerr.KindOf(claim) != ncerr.ErrConflict:
		return nil, err
	}
	if claim != nil {
		return nil, claim
	}
	return openOrParent(ctx, loc, opts)
}
