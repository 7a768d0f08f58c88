// Package open decides what a URL or path is, and opens it as a dataset or store.
//
//	ds, err := open.Open(ctx, "ocean.zarr", &dataset.Options{Registry: reg})
//	temp, err := ds.Root().Var("temp")
//
// [Locate] infers the location from the URL, the files that exist, the settings in the
// options and the drivers of the registry. The operations of core/dataset take locations.
package open

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/refs"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Open opens the existing dataset at url, a URL in the form that netCDF tools accept
// ("s3://bucket/key#mode=nczarr", "file:///d/x.zip#mode=zarr,zip") or a plain path; see
// core/ncurl. It may also be the URL of a group inside a dataset. Errors: those of
// [Locate] and dataset.Open.
func Open(ctx context.Context, url string, o *dataset.Options) (*dataset.Dataset, error) {
	loc, err := Locate(url, o, false)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, loc, o)
}

// openAt opens the dataset at a location.
func openAt(ctx context.Context, loc *ncurl.Location, o *dataset.Options) (*dataset.Dataset, error) {
	if !loc.References {
		return dataset.Open(ctx, loc, o)
	}
	return dataset.OpenTree(ctx, loc, o, func(o *dataset.Options) (*dataset.Tree, error) { return references(ctx, loc, o) })
}

// Create creates a dataset at url and opens it for writing; see dataset.Create. Errors:
// those of [Locate] and dataset.Create.
func Create(ctx context.Context, url string, o *dataset.CreateOptions) (*dataset.Dataset, error) {
	if o == nil {
		o = &dataset.CreateOptions{}
	}
	loc, err := Locate(url, &o.Options, true)
	if err != nil {
		return nil, err
	}
	return dataset.Create(ctx, loc, o)
}

// Store opens the store at url for reading, whatever it contains. It is for tools that
// examine objects. A reference file is presented as the Zarr store that its references
// describe. The caller must close the result. Errors: those of [Open], except the ones
// about metadata.
func Store(ctx context.Context, url string, o *dataset.Options) (*zmap.Map, error) {
	loc, err := Locate(url, o, false)
	if err != nil {
		return nil, err
	}
	if loc.References {
		ds, err := openAt(ctx, loc, o)
		if err != nil {
			return nil, err
		}
		return ds.KeyView(), nil
	}
	s, err := dataset.OpenStore(ctx, loc, o)
	if err != nil {
		return nil, err
	}
	if err := checkNotEmpty(ctx, loc, s.Map); err != nil {
		_ = s.Close(ctx) // the first error is more useful
		return nil, err
	}
	return s.Map, nil
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

// Locate infers the location of an existing dataset or, if create is set, of a new one.
// Options.URLEnv provides the settings. Without them, Locate examines local paths with
// [Probe], and relative paths start at the current directory. If only a plugin can serve
// the scheme of the URL, Locate starts the plugins that have not described themselves yet.
// Errors: those of ncurl.Parse, and ncerr.ErrInvalid if the options have no registry.
func Locate(url string, o *dataset.Options, create bool) (*ncurl.Location, error) {
	if o == nil || o.Registry == nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open", ncurl.Masked(url), "Options.Registry is not set")
	}
	env := ncurl.Env{}
	if o.URLEnv != nil {
		env = *o.URLEnv
	}
	env.Create = create
	env.Windows = env.Windows || runtime.GOOS == "windows"
	if env.Probe == nil {
		env.Probe = Probe
	}
	if env.Schemes == nil {
		env.Schemes = store.Schemes(o.Registry, url)
	}
	if env.Cwd == "" {
		env.Cwd, _ = os.Getwd() // on error relative paths stay relative
	}
	return ncurl.Parse(url, &env)
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
	head := make([]byte, max(ncurl.SniffLen, refs.SniffLen))
	n, _ := io.ReadFull(f, head) // a short file yields fewer bytes
	kind := ncurl.Sniff(head[:n])
	if kind == ncurl.OtherFile && !zarr.IsZarrDoc(filepath.Base(name)) && refs.Sniff(head[:n]) {
		kind = ncurl.References
	}
	return kind
}
