package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// site describes where a new dataset is created.
type site struct {
	at   string      // the path of the new store; differs from the location's path if a dataset is replaced
	bare bool        // an empty store exists
	free bool        // nothing exists, and the store can be created exclusively
	hold *place.Hold // lock on the directory, if it exists
	swap replacement // nil unless a dataset is replaced
}

// replacement replaces a dataset with a new one that was created elsewhere.
type replacement interface {
	// commit makes the new dataset durable, moves it to its final location, and then
	// removes the old one. If commit fails, the old dataset is unchanged unless the error
	// reports a change.
	commit(ctx context.Context) error
	// discard removes the new dataset.
	discard(ctx context.Context) error
}

// joinCleanupError adds the error of cleaning up, if any, to err.
func joinCleanupError(err, cleanup error) error {
	if cleanup == nil {
		return err
	}
	return fmt.Errorf("%w (and cleaning up failed: %w)", err, cleanup)
}

// isLocal reports whether a location is a local directory or file that the library may
// access directly.
func (o *Options) isLocal(ctx context.Context, loc *ncurl.Location) bool {
	d := store.Describe(ctx, o.Registry, loc)
	return store.IsLocal(&d)
}

// isLocal is Options.isLocal for the location of the dataset.
func (d *Dataset) isLocal() bool { return store.IsLocal(d.store.Driver()) }

// choose examines the location of a new dataset and decides where to create the dataset:
// at the location if nothing there has to be deleted, and otherwise elsewhere.
func choose(ctx context.Context, loc *ncurl.Location, opts Options, o *CreateOptions) (*site, error) {
	if opts.isLocal(ctx, loc) {
		return chooseLocal(ctx, loc, opts, o)
	}
	var g errgroup.Group // at the same time, to save a round trip
	if !o.Force {
		g.Go(func() error {
			return checkOutsideInBucket(ctx, loc, opts, append(zarr.NodeDocNames(), zarr.ReplacingMark)...)
		})
	}
	s, err := chooseRemote(ctx, loc, opts, o)
	if outside := g.Wait(); outside != nil {
		return nil, outside
	}
	return s, err
}

func chooseLocal(ctx context.Context, loc *ncurl.Location, opts Options, o *CreateOptions) (*site, error) {
	path := filepath.FromSlash(loc.Path)
	if !o.Force {
		if err := checkOutsideDatasets(path); err != nil {
			return nil, err
		}
	}
	locality := store.Describe(ctx, opts.Registry, loc).Locality
	c, err := localContents(locality, path, opts.Limits)
	if err != nil {
		return nil, err
	}
	if !c.exists {
		if dir := place.Interrupted(path); dir != "" && !o.Force {
			return nil, interrupted("create", path, dir)
		}
		s := &site{at: loc.Path}
		if locality != driver.LocalDirectory {
			return s, nil
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			s.free = true
			return s, nil
		}
		s.hold, err = lockEmpty(loc, opts.Limits)
		return s, err
	}
	if err := c.refuse(path, o.Force, o.NoClobber); err != nil {
		return nil, err
	}
	if o.NoClobber && !o.Force {
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", path, "the location contains a dataset")
	}
	warnHardLinks(ctx, loc, opts)
	check := func(old string) error {
		now, err := localContents(locality, old, opts.Limits)
		if err != nil {
			return err
		}
		return now.refuse(path, o.Force, o.NoClobber)
	}
	s, err := place.NewStage(path, place.StageOptions{Directory: locality == driver.LocalDirectory, Check: check, Force: o.Force})
	if err != nil {
		return nil, systemError("replace", path, err)
	}
	return &site{at: filepath.ToSlash(s.Path), swap: &staged{s, path}}, nil
}

// interrupted returns the error for a dataset whose replacement was interrupted.
func interrupted(op, path, dir string) error {
	return ncerr.Errorf(ncerr.ErrNoDataset, op, path, "a process died while replacing the dataset, which is now in %q; to restore it, run: nczctl clean --remove %s", dir, shellQuote(filepath.Dir(dir)))
}

// staged is the replacement of a local file or directory.
type staged struct {
	stage *place.Stage
	path  string
}

func (s *staged) commit(context.Context) error {
	if err := s.stage.Commit(); err != nil {
		return systemError("replace", s.path, err)
	}
	return nil
}

func (s *staged) discard(context.Context) error {
	if err := s.stage.Discard(); err != nil {
		return systemError("clean up", s.path, err)
	}
	return nil
}

// insideError returns the error for a location inside the dataset at dir.
func insideError(path, dir string) error {
	return ncerr.Errorf(ncerr.ErrExists, "create", path, "the location is inside the dataset %q, and a dataset inside another one would be mistaken for a part of it", dir)
}

// checkOutsideDatasets fails if a path is inside a dataset: if a directory above it
// contains a document of a node or is locked by a process that creates a dataset.
func checkOutsideDatasets(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return systemError("create", path, err)
	}
	starts := []string{filepath.Dir(abs)}
	if real, err := filepath.EvalSymlinks(starts[0]); err == nil && real != starts[0] {
		starts = append(starts, real)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		starts = append(starts, filepath.Dir(real))
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			for _, name := range zarr.NodeDocNames() {
				_, err := os.Stat(filepath.Join(dir, name))
				if err == nil {
					return insideError(path, dir)
				}
				if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !notDirectory(err) {
					return systemError("create", path, err)
				}
			}
			if place.Held(dir) {
				return ncerr.Errorf(ncerr.ErrConflict, "create", path, "the location is inside %q, where another process is creating a dataset: wait until it has finished", dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

// checkOutsideInBucket is like checkOutsideDatasets, for a bucket. It concurrently looks
// for objects of the given names directly below each prefix above the location. It
// ignores objects that the caller has no permission to read.
func checkOutsideInBucket(ctx context.Context, loc *ncurl.Location, opts Options, names ...string) error {
	bucket, rest, ok := strings.Cut(loc.Path, "/")
	if !ok || !opts.isPrefix(ctx, loc) {
		return nil
	}
	top := *loc
	top.Path = bucket
	up, err := openStore(ctx, &top, opts, driver.Read)
	if err != nil {
		return err
	}
	defer up.Close(ctx) //nolint:errcheck // opened for reading only
	var keys []string
	for dir := rest; dir != ""; {
		dir, _ = splitKey(dir)
		for _, name := range names {
			if key := docKey(dir, name); zmap.ValidKey(key) == nil {
				keys = append(keys, key)
			}
		}
	}
	return each(ctx, keys, len(keys), func(key string) error {
		there, err := up.Exists(ctx, key)
		if there {
			dir, name := splitKey(key)
			above := *loc
			above.Path = strings.TrimSuffix(docKey(bucket, dir), "/")
			if err = insideError(loc.Path, above.Path); name == zarr.ReplacingMark {
				claim, cerr := readClaim(ctx, up.Map, key)
				err = fmt.Errorf("the location is inside %q: %w", above.Path, claimedError("create", &above, claim, cerr))
			}
		}
		if ncerr.KindOf(err) == ncerr.ErrPermission {
			err = nil
		}
		return err
	})
}

func chooseRemote(ctx context.Context, loc *ncurl.Location, opts Options, o *CreateOptions) (*site, error) {
	s := &site{at: loc.Path}
	old, err := openStore(ctx, loc, opts, driver.Read)
	switch kind := ncerr.KindOf(err); {
	case err == nil:
	case kind == ncerr.ErrNoDataset:
		s.free = true
		return s, nil
	case (kind == ncerr.ErrCorrupt || kind == ncerr.ErrNotZarr) && o.Force:
		return s, nil
	case kind == ncerr.ErrCorrupt || kind == ncerr.ErrNotZarr:
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "the location contains something other than a dataset: %w", err)
	default: // the driver failed, so the contents are unknown
		return nil, err
	}
	defer old.Close(ctx) //nolint:errcheck // opened for reading only
	if !old.Capabilities().List {
		return s, checkUnlistable(ctx, old.Map, loc, o)
	}
	if empty, err := isEmpty(ctx, old.Map); err != nil || empty {
		s.bare = true
		return s, err
	}
	if claim, err := readClaim(ctx, old.Map, zarr.ReplacingMark); err != nil || claim != nil && (!o.Force || o.NoClobber && !claim.Creates) {
		return nil, claimedError("create", loc, claim, err)
	}
	if o.NoClobber && !o.Force {
		names, err := old.Search(ctx, "")
		if err == nil {
			err = ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "the location contains %s", describeContents(names))
		}
		return nil, err
	}
	c, err := storeContents(ctx, old.Map, opts.Limits)
	if err != nil {
		return nil, err
	}
	if err := c.refuse(loc.Path, o.Force, o.NoClobber); err != nil {
		return nil, err
	}
	swap, err := newSibling(loc, opts, o.Force, o.NoClobber)
	if err != nil {
		return nil, err
	}
	if caps := old.Capabilities(); swap != nil && caps.Durable == driver.OnPut {
		s.at, s.swap = swap.stage, swap
		return s, nil
	}
	if !o.Force {
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "the driver %s cannot keep the old dataset until the new one is complete: remove it first, or use --overwrite and --force, which delete it immediately", loc.Driver)
	}
	return s, nil
}

// describeContents describes the contents of a store with these names at its root.
func describeContents(names []string) string {
	if _, dataset := zarr.Foreign(names, nil); dataset {
		return "a dataset"
	}
	return "something other than a dataset"
}

func isEmpty(ctx context.Context, m *zmap.Map) (bool, error) {
	for _, err := range m.List(ctx, "", nil) {
		return false, err
	}
	return true, nil
}

// checkUnlistable fails if a dataset exists in a store that cannot be listed.
func checkUnlistable(ctx context.Context, m *zmap.Map, loc *ncurl.Location, o *CreateOptions) error {
	if o.Force && !o.NoClobber {
		return nil
	}
	for _, name := range zarr.NodeDocNames() {
		there, err := m.Exists(ctx, name)
		if err != nil {
			return err
		}
		if there {
			return ncerr.Errorf(ncerr.ErrExists, "create", loc.Path, "the location contains a dataset, and the driver %s cannot list its objects: remove it first, or use --overwrite and --force", loc.Driver)
		}
	}
	return nil
}
