package nczarr

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Open opens an existing dataset. url is a URL in the form that netCDF tools accept
// ("s3://bucket/key#mode=nczarr", "file:///d/x.zip#mode=zarr,zip") or a plain path; see
// core/ncurl. It may also be the URL of a group inside a dataset, even of a group without
// documents. Open then finds the dimensions that the group's variables share with groups
// above it.
//
// Errors: ncerr.ErrBadURL, ncerr.ErrNoDataset if nothing exists at the location,
// ncerr.ErrNotZarr if something other than a dataset exists there, ncerr.ErrMetadata for
// a damaged root document, and those of the store. A group or variable that cannot be
// read is left out: see [Dataset.Problems].
func Open(ctx context.Context, url string, o *Options) (*Dataset, error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil {
		return nil, err
	}
	return openUnclaimed(ctx, loc, opts)
}

// openOrParent opens the dataset at a location. If the location is a group inside a
// dataset, it opens that dataset.
func openOrParent(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	ds, err := openAt(ctx, loc, opts)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset && local(loc) {
		if dir := place.Interrupted(filepath.FromSlash(loc.Path)); dir != "" {
			err = interrupted("open", loc.Path, dir)
		}
	}
	if err == nil {
		err = ds.checkVisible(ctx)
	}
	if ncerr.KindOf(err) == ncerr.ErrNotZarr { // a group without documents is visible only from the groups above it
		if whole, aerr := datasetAbove(ctx, loc, opts); whole != nil || aerr != nil {
			return whole, aerr
		}
	}
	if err != nil {
		return nil, replacedError(ctx, loc, opts, err)
	}
	return ds.openParent(ctx)
}

// checkVisible closes the dataset and fails if the location is claimed. It skips this check
// if the root has a document that a replacement removes first.
func (d *Dataset) checkVisible(ctx context.Context) error {
	if local(d.loc) {
		return nil
	}
	if name := d.rootDoc(); name == zarr.ConsolidatedDoc || zarr.IsNodeDoc(name) {
		return nil
	}
	return d.checkUnclaimed(ctx)
}

// resolve completes the options and infers the location.
func resolve(url string, o *Options, create bool) (Options, *ncurl.Location, error) {
	if o == nil || o.Registry == nil {
		return Options{}, nil, ncerr.Errorf(ncerr.ErrInvalid, "open", ncurl.Masked(url), "Options.Registry is not set")
	}
	opts := *o
	opts.Limits = opts.Limits.withDefaults()
	opts.setBudget()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	env := ncurl.Env{}
	if opts.URLEnv != nil {
		env = *opts.URLEnv
	}
	env.Create = create
	env.Windows = env.Windows || runtime.GOOS == "windows"
	if env.Probe == nil {
		env.Probe = Probe
	}
	if env.Cwd == "" {
		env.Cwd, _ = os.Getwd() // on error relative paths stay relative
	}
	loc, err := ncurl.Parse(url, &env)
	if err != nil {
		return opts, nil, err
	}
	for _, w := range loc.Warnings {
		opts.Log.Warn(w, "url", loc.Display)
	}
	if loc.Format == ncurl.Bytes {
		return opts, nil, ncerr.Errorf(ncerr.ErrUnsupported, "open", loc.Display, "byte-range access to netCDF-3 and HDF5 files is not supported")
	}
	return opts, loc, nil
}

// Probe examines a local path for URL inference. It reports whether the path is a
// directory and, for a file, the format that its first bytes indicate.
func Probe(name string) ncurl.PathKind {
	info, err := os.Stat(name)
	switch {
	case os.IsNotExist(err):
		return ncurl.Missing
	case err != nil:
		return ncurl.NotProbed
	case info.IsDir():
		return ncurl.Directory
	case !info.Mode().IsRegular():
		return ncurl.OtherFile
	}
	f, err := os.Open(name)
	if err != nil {
		return ncurl.NotProbed // the driver reports the reason
	}
	defer f.Close() // opened for reading only
	head := make([]byte, ncurl.SniffLen)
	n, _ := io.ReadFull(f, head) // a short file yields fewer bytes
	return ncurl.Sniff(head[:n])
}

// newDataset opens the store of a location and returns a dataset without metadata. It
// reads nothing from the store.
func newDataset(ctx context.Context, loc *ncurl.Location, opts Options, mode driver.Mode) (*Dataset, error) {
	opener, err := opts.Registry.Driver(loc.Driver)
	if err != nil {
		return nil, ncerr.Wrap("open", loc.Display, err)
	}
	opener = layer.RetryOpener(opener, &opts.Remote.Retry)
	spec := driver.OpenSpec{Path: loc.Path, Endpoint: loc.Endpoint, Options: opts.DriverOptions[loc.Driver], Mode: mode, Documents: zarr.DocNames()}
	if spec.Options, err = formatOptions(loc, spec.Options, mode); err != nil {
		return nil, err
	}
	raw, err := opener.Open(ctx, spec)
	if err != nil {
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	_, many := raw.(driver.GetManyer)
	if opts.Wrap != nil {
		raw = opts.Wrap(raw)
	}
	if raw.Capabilities().Latency == driver.Remote {
		if raw, err = remote(ctx, raw, loc, spec, opts.Remote); err != nil {
			return nil, err
		}
	}
	m := zmap.New(raw, &zmap.Options{Name: loc.Driver, Location: printablePlace(raw, loc), ReadOnly: !mode.Writable(), InFlight: opts.Remote.InFlight, MaxList: opts.Limits.MaxKeys, MaxListBytes: opts.Limits.MaxListing})
	ds := &Dataset{loc: loc, m: m, opts: opts, log: opts.Log, spec: spec, opener: opener, noXarray: !loc.Xarray, docs: documents{all: !m.ReadOnly()}}
	ds.cache = array.NewCache(cmp.Or(opts.ChunkCache, DefaultChunkCache), opts.Budget.Cache())
	if !m.ReadOnly() {
		ds.buffer = array.NewWriteBuffer(cmp.Or(opts.WriteBuffer, DefaultWriteBuffer), opts.Budget)
	}
	ds.getMany = many || m.Capabilities().Latency == driver.Remote
	return ds, nil
}

// printablePlace returns a printable location of a remote store for errors. It omits
// secret parts of the URL, such as a query with a signature. It returns "" for a local
// store.
func printablePlace(m driver.Map, loc *ncurl.Location) string {
	if m.Capabilities().Latency != driver.Remote {
		return ""
	}
	server := loc.Endpoint
	if server == "" {
		server = loc.Driver + ":/"
	}
	return strings.TrimSuffix(server, "/") + "/" + strings.TrimPrefix(loc.Path, "/")
}

// remote wraps a high-latency store in the retry, concurrency and cache layers.
func remote(ctx context.Context, raw driver.Map, loc *ncurl.Location, spec driver.OpenSpec, o layer.RemoteOptions) (driver.Map, error) {
	if o.Cache != nil {
		c := *o.Cache
		c.Identity = identity(c.Identity, loc, spec)
		o.Cache = &c
	}
	m, err := layer.Remote(raw, o)
	if err != nil {
		_ = raw.Close(ctx) // the first error is more useful
	}
	return m, err
}

// identity returns the cache identity of a store and its reader. Readers may have
// different permissions, and a cache that does not query the store must not serve one
// reader's data to another. Only a hash of the identity is ever written.
func identity(caller string, loc *ncurl.Location, spec driver.OpenSpec) string {
	return fmt.Sprintf("%q", []string{caller, loc.Driver, spec.Endpoint, spec.Path, loc.Query, loc.Profile, loc.Region, string(spec.Options)})
}

// openAt opens the dataset whose root is exactly at the location.
func openAt(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	mode := driver.Read
	if opts.Update {
		mode = driver.Update
		warnHardLinks(loc, opts)
	}
	ds, err := newDataset(ctx, loc, opts, mode)
	if err != nil {
		return nil, err
	}
	l := &loader{ds: ds}
	if err := l.load(ctx); err != nil {
		_ = ds.m.Close(ctx) // the first error is more useful
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	if err := l.decideConsolidated(ctx); err != nil {
		_ = ds.m.Close(ctx)
		return nil, err
	}
	ds.setStored(ds.lengths())
	return ds, nil
}

// decideConsolidated determines whether consolidated metadata is current or must be
// kept up to date.
func (l *loader) decideConsolidated(ctx context.Context) (err error) {
	d := l.ds
	switch {
	case d.consolidated:
	case d.opts.UseConsolidated == ConsolidatedVerify:
		err = d.verifyConsolidated(ctx)
	case d.opts.Update && d.layout.Inline():
		if d.consolidated = zarr.CanUpdateInline(d.top.docsInStore); d.consolidated {
			err = d.keepUnlisted(ctx)
		}
	case d.opts.Update:
		if !l.consolidatedChecked {
			l.findConsolidated(ctx)
		}
		d.consolidated, err = l.hasConsolidated, l.consolidatedErr
	}
	return err
}

// openParent looks for the root of a dataset that was opened at one of its groups. It
// returns that dataset with the group as its Root.
func (d *Dataset) openParent(ctx context.Context) (*Dataset, error) {
	if !d.isSubgroup() {
		return d, nil
	}
	whole, err := datasetAbove(ctx, d.loc, d.opts)
	switch {
	case err != nil:
		_ = d.m.Close(ctx) // the first error is more useful
		return nil, err
	case whole == nil: // the group is not part of a dataset above
		return d, nil
	}
	_ = d.m.Close(ctx) // it was only read
	return whole, nil
}

// datasetAbove returns the dataset above loc that contains a group at loc, with that
// group as its Root, or nil. Directories in between need no group documents.
// datasetAbove searches only with the drivers file and s3: it does not let plugin
// drivers access locations above the one that the user specified.
func datasetAbove(ctx context.Context, loc *ncurl.Location, opts Options) (*Dataset, error) {
	if loc.Driver != ncurl.DriverFile && loc.Driver != ncurl.DriverS3 {
		return nil, nil // other drivers are not searched
	}
	dir, below := path.Clean(loc.Path), ""
	for {
		up := path.Dir(dir)
		if up == dir || up == "." {
			return nil, nil // reached the top
		}
		below = strings.TrimSuffix(path.Join(path.Base(dir), below), "/")
		dir = up
		at := *loc
		at.Path = dir
		whole, err := openAt(ctx, &at, opts)
		if err == nil {
			err = whole.checkVisible(ctx)
		}
		switch kind := ncerr.KindOf(err); {
		case ncerr.IsContext(err):
			return nil, err
		case kind == ncerr.ErrNotZarr:
			continue
		case err != nil:
			return nil, nil //nolint:nilerr // the group is not part of this dataset
		}
		if g := whole.top.walk(below); g != nil && !whole.isSubgroup() {
			whole.root, whole.loc = g, loc
			return whole, nil
		}
		if err := whole.m.Close(ctx); err != nil {
			return nil, nil //nolint:nilerr // as above
		}
	}
}

// isSubgroup reports whether the top group has NCZarr's group block but lacks the
// superblock that every root has.
func (d *Dataset) isSubgroup() bool {
	m := d.top.meta
	return m != nil && m.Listed && m.Superblock == ""
}

// OpenStore opens the store at url for reading, whatever it contains. It is for tools
// that examine objects. The caller must close the result. Errors: those of [Open], except
// the ones about metadata.
func OpenStore(ctx context.Context, url string, o *Options) (*zmap.Map, error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil {
		return nil, err
	}
	ds, err := newDataset(ctx, loc, opts, driver.Read)
	if err != nil {
		return nil, err
	}
	if err := checkNotEmpty(ctx, loc, ds.m); err != nil {
		_ = ds.m.Close(ctx) // the first error is more useful
		return nil, err
	}
	return ds.m, nil
}

// checkNotEmpty fails with ncerr.ErrNoDataset if a remote store is empty. Opening such
// a store sends no request and so does not check this.
func checkNotEmpty(ctx context.Context, loc *ncurl.Location, m *zmap.Map) error {
	if c := m.Capabilities(); c.Latency != driver.Remote || !c.List {
		return nil
	}
	for _, err := range m.List(ctx, "", nil) {
		return err
	}
	return ncerr.Errorf(ncerr.ErrNoDataset, "open", loc.Path, "the location contains no objects")
}
