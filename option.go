package nczarr

import (
	"bytes"
	"encoding/json"
	"log/slog"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Option configures [Open] or [Create]. Every option has a default. An invalid option,
// or one that does not apply to the function, makes Open or Create fail with
// [ErrInvalid].
type Option func(*config) error

// config collects the options of one call.
type config struct {
	nczarr.CreateOptions
	drivers []driver.Opener
	filters []codecdriver.Provider
	opens   string // name of an option that only Open accepts, if one was used
	creates string // name of an option that only Create accepts, if one was used
}

func gather(opts []Option) (*config, error) {
	c := &config{}
	c.NoClobber = true
	for i, o := range opts {
		if o == nil {
			return nil, ncerr.Errorf(ErrInvalid, "", "", "option %d is nil", i)
		}
		if err := o(c); err != nil {
			return nil, err
		}
	}
	base := c.Registry
	if base == nil {
		base = builtin()
	}
	c.Registry = &registry{own: nczarr.NewRegistry(c.drivers, c.filters...), next: base}
	return c, nil
}

// Writable opens an existing dataset for reading and writing. The default is reading
// only. It is valid for [Open] only.
func Writable() Option {
	return func(c *config) error {
		c.Update, c.opens = true, "Writable"
		return nil
	}
}

// Replace lets [Create] replace an existing dataset. The new dataset is written beside
// the old one and replaces it at Close. Until then readers see the old one, and Abort
// keeps it. Only objects that belong to the old dataset are removed. By default, Create
// fails with [ErrExists].
func Replace() Option {
	return func(c *config) error {
		c.NoClobber, c.creates = false, "Replace"
		return nil
	}
}

// Force lets [Create] make a dataset inside another dataset, or in place of a directory
// that holds something else. The content of the directory is deleted. By default,
// Create fails.
func Force() Option {
	return func(c *config) error {
		c.Force, c.creates = true, "Force"
		return nil
	}
}

// PureZarr makes [Create] write Zarr v2 without NCZarr metadata, as "#mode=zarr" at the
// end of the URL does. Unlimited dimensions have a fixed length when such a dataset is
// read again. By default, the URL decides; without a mode in the URL, Create writes
// NCZarr.
func PureZarr() Option {
	return func(c *config) error {
		layout := zarr.LayoutPure
		c.Layout, c.creates = &layout, "PureZarr"
		return nil
	}
}

// Consolidated makes [Create] also write consolidated metadata, so that readers on a
// network open the dataset with one request. By default, it does not.
func Consolidated() Option {
	return func(c *config) error {
		c.CreateOptions.Consolidated, c.creates = true, "Consolidated"
		return nil
	}
}

// SingleWriter declares that no other program writes the dataset while it is open.
// Without it, stores that cannot compare versions cause a warning on partial writes.
func SingleWriter() Option {
	return func(c *config) error {
		c.Options.SingleWriter = true
		return nil
	}
}

// WithWorkers sets the number of chunks processed concurrently, at least 1. The default
// is GOMAXPROCS.
func WithWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithWorkers(%d): the number of workers must be at least 1", n)
		}
		c.Workers = n
		return nil
	}
}

// WithLogger sets the logger for events that deserve attention but are not errors. By
// default, nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		if l == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithLogger: the logger is nil")
		}
		c.Log = l
		return nil
	}
}

// Limits restrict sizes that a dataset declares. Exceeding one causes [ErrLimit]. A zero
// field means its default.
type Limits struct {
	MaxMetadata  int64 // bytes of one metadata document; default 64 MiB
	MaxDocuments int64 // bytes of all documents of a dataset; default 256 MiB
	MaxChunk     int64 // bytes of one decoded chunk; default 2 GiB
	MaxElements  int64 // elements of one chunk; default 2^30
	MaxChunks    int64 // chunks of a variable that is copied; default 2^28
	MaxData      int64 // bytes of a variable that is copied; default 16 TiB
	MaxNodes     int   // groups and variables of a dataset; default 1,000,000
	MaxDepth     int   // nesting of groups; default 256
	MaxKeys      int   // keys in one listing; default 2^22
	MaxListing   int64 // bytes of those keys; default 256 MiB
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option {
	return func(c *config) error {
		if min(l.MaxMetadata, l.MaxDocuments, l.MaxChunk, l.MaxElements, l.MaxChunks, l.MaxData, l.MaxListing, int64(l.MaxNodes), int64(l.MaxDepth), int64(l.MaxKeys)) < 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithLimits: a limit is negative")
		}
		c.Limits = nczarr.Limits(l)
		return nil
	}
}

// WithDriver adds a storage driver, such as s3.New() of drivers/s3 or the result of
// [Memory]. It takes precedence over a built-in driver of the same name.
func WithDriver(d driver.Opener) Option {
	return func(c *config) error {
		if d == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithDriver: the driver is nil")
		}
		c.drivers = append(c.drivers, d)
		return nil
	}
}

// WithDriverOptions sets the options of a storage driver. options is a struct or map
// that encoding/json encodes as an object. The reference page configuration.md lists
// the keys of each driver.
func WithDriverOptions(name string, options any) Option {
	return func(c *config) error {
		text, err := json.Marshal(options)
		if err != nil || !bytes.HasPrefix(text, []byte("{")) {
			return ncerr.Errorf(ErrInvalid, "", "", "WithDriverOptions(%q): the options are not a JSON object: %T", name, options)
		}
		all := map[string][]byte{name: text}
		for other, kept := range c.DriverOptions { // do not modify the map of WithOptions: it belongs to the caller
			if other != name {
				all[other] = kept
			}
		}
		c.DriverOptions = all
		return nil
	}
}

// WithCodecs adds a provider of codecs; see core/codec/driver. It takes precedence over
// the built-in codecs.
func WithCodecs(p codecdriver.Provider) Option {
	return func(c *config) error {
		if p == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithCodecs: the provider is nil")
		}
		c.filters = append(c.filters, p)
		return nil
	}
}

// WithOptions sets all options of core/nczarr, including the registry. They come from a
// core/session, which has the settings and plugins of nczctl, or hold a registry of
// core/plugin/host. WithOptions must be the first option. If Registry is nil, the
// built-in drivers and codecs are used.
func WithOptions(o *nczarr.Options) Option {
	return func(c *config) error {
		if o == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithOptions: the options are nil")
		}
		c.Options = *o
		return nil
	}
}
