package dataset

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// CheckOverlap fails with ncerr.ErrInvalid if the destination is the dataset src
// itself, lies inside it or contains it, even if the two URLs were spelled differently.
// It compares local paths by file identity, and stores on one server by bucket and key.
// If the server names or the drivers differ, CheckOverlap writes an object to the
// destination, looks for it in the source and, if the source is local, in the
// directories above it, and deletes it.
func CheckOverlap(ctx context.Context, src *Dataset, to *ncurl.Location, o *Options) error {
	opts, err := o.complete(to)
	if err != nil {
		return err
	}
	from, at := src.loc, store.Describe(ctx, opts.Registry, to)
	a, b := bucketPath(from, src.store.Driver()), bucketPath(to, &at)
	relation := relate(from, to, a, b)
	files := from.IsFile && to.IsFile // a plugin driver may have two names for one location
	oneServer := !files && from.Driver == to.Driver && from.Endpoint == to.Endpoint && from.Bucket == to.Bucket
	if !oneServer && (!files || relation == place.Disjoint) {
		if relation, err = probe(ctx, src, to, opts, relation, a, b); err != nil {
			return err
		}
	}
	switch relation {
	case place.Same:
		return ncerr.Errorf(ncerr.ErrInvalid, "copy", displayLoc(from), "source and destination are the same")
	case place.Below:
		return ncerr.Errorf(ncerr.ErrInvalid, "copy", displayLoc(from), "the destination %q is inside the source", displayLoc(to))
	case place.Above:
		return ncerr.Errorf(ncerr.ErrInvalid, "copy", displayLoc(from), "the source is inside the destination %q", displayLoc(to))
	}
	return nil
}

// displayLoc returns a location as error messages show it.
func displayLoc(l *ncurl.Location) string {
	if l.IsFile {
		return l.Path
	}
	return l.Display
}

// relate compares two locations by their paths, of which a and b are the bucketPath. It
// ignores buckets and servers, because one store may have several names.
func relate(from, to *ncurl.Location, a, b string) place.Relation {
	switch {
	case from.IsFile && to.IsFile:
		return place.Compare(from.Path, to.Path)
	case from.IsFile || to.IsFile:
		return place.Disjoint
	}
	switch {
	case a == b:
		return place.Same
	case strings.HasPrefix(b, a):
		return place.Below
	case strings.HasPrefix(a, b):
		return place.Above
	}
	return place.Disjoint
}

// bucketPath returns the part of a location after the server and the bucket, with a
// trailing slash unless it is empty.
func bucketPath(l *ncurl.Location, d *driver.Description) string {
	key := strings.Trim(l.Path, "/")
	if d.Locality == driver.OnServer { // the first segment of a path on a web server may be a bucket too
		_, key, _ = strings.Cut(key, "/")
	}
	if key == "" {
		return ""
	}
	return key + "/"
}

// probe verifies a suspected relation of two stores, whose bucketPaths are a and b. It returns
// place.Disjoint if the relation does not hold or cannot be verified.
func probe(ctx context.Context, src *Dataset, to *ncurl.Location, opts Options, relation place.Relation, a, b string) (place.Relation, error) {
	if opts.isLocal(ctx, to) { // a local destination is replaced only after the source was read
		return place.Disjoint, nil
	}
	dst, err := openStore(ctx, to, opts, driver.Update)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		return place.Disjoint, nil
	}
	if err != nil {
		return 0, err
	}
	defer dst.Close(ctx) //nolint:errcheck // the mark was deleted or an error is returned
	if caps := dst.Capabilities(); !caps.Write || !caps.Delete || !caps.List {
		return place.Disjoint, nil
	}
	if relation != place.Below { // an empty location contains no source
		if empty, err := isEmpty(ctx, dst.Map); err != nil || empty {
			return place.Disjoint, err
		}
	}
	mark := zarr.NewProbe()
	put, look := mark, mark
	switch relation {
	case place.Below:
		look = path.Join(strings.TrimPrefix(b, a), mark)
	case place.Above:
		put = path.Join(strings.TrimPrefix(a, b), mark)
	case place.Disjoint:
		relation = place.Same
	}
	found, above, err := src.seesProbe(ctx, dst.Map, put, look)
	switch {
	case err != nil:
		return 0, err
	case found:
		return relation, nil
	case above:
		return place.Above, nil
	}
	return place.Disjoint, nil
}

// seesProbe reports whether an object that is temporarily put into m is visible in d or
// in a directory above d, because a bucket may be mounted as a file system.
func (d *Dataset) seesProbe(ctx context.Context, m *zmap.Map, put, look string) (found, above bool, err error) {
	if _, err := m.Put(ctx, put, driver.Bytes("nczarr: temporary object to compare two locations. It may be deleted.\n"), nil); err != nil {
		return false, false, err
	}
	defer func() {
		clean := context.WithoutCancel(ctx)
		derr := m.Delete(clean, put)
		if derr == nil {
			derr = m.Flush(clean)
		}
		if err == nil {
			err = derr
		}
	}()
	if err := m.Flush(ctx); err != nil {
		return false, false, err
	}
	loc, key := d.loc, look
	if d.tree != nil { // the store is the directory that contains the file of the Tree
		loc, key = d.storeLoc(), path.Join(d.tree.Key, look)
	}
	again, err := openStore(ctx, loc, d.opts, driver.Read) // the open store may not show newer objects
	if err != nil {
		return false, false, err
	}
	defer again.Close(ctx) //nolint:errcheck // opened for reading only
	found, err = again.Exists(ctx, key)
	return found, !found && d.isLocal() && existsAbove(filepath.FromSlash(d.loc.Path), look), err
}

// existsAbove reports whether a directory above a path contains a file with the given
// name.
func existsAbove(at, name string) bool {
	at, err := filepath.Abs(at)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
