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

// Option changes how [Open] or [Create] works. Every option has a default, and
// a bad one makes Open or Create fail with [ErrInvalid]. So does an option that
// has no meaning there.
type Option func(*config) error

// config is what options are gathered in.
type config struct {
	nczarr.CreateOptions
	drivers []driver.Opener
	filters []codecdriver.Provider
	opens   string // an option that only Open takes
	creates string // an option that only Create takes
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

// Writable opens an existing dataset for writing as well. The default is
// reading. For [Open] only.
func Writable() Option {
	return func(c *config) error {
		c.Update, c.opens = true, "Writable"
		return nil
	}
}

// Replace lets [Create] replace a dataset that exists. The new one is made
// beside it and takes its place at Close; until then readers see the old one,
// and Abort leaves it there. Only what belongs to the old dataset is removed.
// The default is that Create fails with [ErrExists].
func Replace() Option {
	return func(c *config) error {
		c.NoClobber, c.creates = false, "Replace"
		return nil
	}
}

// Force lets [Create] make a dataset inside another one, or over a directory
// that holds something else, which is deleted. The default is that Create fails.
func Force() Option {
	return func(c *config) error {
		c.Force, c.creates = true, "Force"
		return nil
	}
}

// PureZarr makes [Create] write Zarr v2 without the metadata of NCZarr, as
// "#mode=zarr" at the end of the URL does. Unlimited dimensions become fixed in
// such a dataset. The default is what the URL says, else NCZarr.
func PureZarr() Option {
	return func(c *config) error {
		layout := zarr.LayoutPure
		c.Layout, c.creates = &layout, "PureZarr"
		return nil
	}
}

// Consolidated makes [Create] write consolidated metadata too, which readers on
// a network open with one request. The default is not to.
func Consolidated() Option {
	return func(c *config) error {
		c.CreateOptions.Consolidated, c.creates = true, "Consolidated"
		return nil
	}
}

// SingleWriter states that no other program writes the dataset while it is
// open. Stores that cannot compare versions warn about partial writes without
// it.
func SingleWriter() Option {
	return func(c *config) error {
		c.Options.SingleWriter = true
		return nil
	}
}

// WithWorkers sets how many chunks are worked on at once, at least 1. The
// default is GOMAXPROCS.
func WithWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithWorkers(%d): at least 1 worker is needed", n)
		}
		c.Workers = n
		return nil
	}
}

// WithLogger sets the logger for what deserves attention but is not an error.
// The default is silence.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		if l == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithLogger: the logger is nil")
		}
		c.Log = l
		return nil
	}
}

// Limits are ceilings on sizes that a dataset states; what exceeds one is
// [ErrLimit]. A field that is 0 has its default.
type Limits struct {
	MaxMetadata  int64 // bytes of one metadata document; default 64 MiB
	MaxDocuments int64 // bytes of all documents of a dataset; default 256 MiB
	MaxChunk     int64 // bytes of one decoded chunk; default 2 GiB
	MaxElements  int64 // elements of one chunk; default 2^30
	MaxChunks    int64 // chunks of a variable that is copied; default 2^28
	MaxData      int64 // bytes of a variable that is copied; default 16 TiB
	MaxNodes     int   // groups and variables of a dataset; default 1,000,000
	MaxDepth     int   // nesting of groups; default 256
	MaxKeys      int   // keys of one listing; default 2^22
	MaxListing   int64 // bytes of those keys; default 256 MiB
}

// WithLimits sets the ceilings.
func WithLimits(l Limits) Option {
	return func(c *config) error {
		if min(l.MaxMetadata, l.MaxDocuments, l.MaxChunk, l.MaxElements, l.MaxChunks, l.MaxData, l.MaxListing, int64(l.MaxNodes), int64(l.MaxDepth), int64(l.MaxKeys)) < 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithLimits: a limit is negative")
		}
		c.Limits = nczarr.Limits(l)
		return nil
	}
}

// WithDriver adds a storage driver, such as s3.New() of drivers/s3 or the result
// of [Memory]. It goes before a built-in driver of the same name.
func WithDriver(d driver.Opener) Option {
	return func(c *config) error {
		if d == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithDriver: the driver is nil")
		}
		c.drivers = append(c.drivers, d)
		return nil
	}
}

// WithDriverOptions sets the options of a storage driver. options is a struct or
// a map that encoding/json makes an object of; its members are the keys that the
// reference page configuration.md has for the driver.
func WithDriverOptions(name string, options any) Option {
	return func(c *config) error {
		text, err := json.Marshal(options)
		if err != nil || !bytes.HasPrefix(text, []byte("{")) {
			return ncerr.Errorf(ErrInvalid, "", "", "WithDriverOptions(%q): the options are not a JSON object: %T", name, options)
		}
		all := map[string][]byte{name: text}
		for other, kept := range c.DriverOptions { // the map of WithOptions belongs to the caller
			if other != name {
				all[other] = kept
			}
		}
		c.DriverOptions = all
		return nil
	}
}

// WithCodecs adds a provider of codecs, which core/codec/driver describes. It
// goes before the built-in codecs.
func WithCodecs(p codecdriver.Provider) Option {
	return func(c *config) error {
		if p == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithCodecs: the provider is nil")
		}
		c.filters = append(c.filters, p)
		return nil
	}
}

// WithOptions takes over the options of core/nczarr, registry included: those of
// a core/session, which has the settings and plugins of nczctl, or a registry of
// core/plugin/host. It must be the first option. A nil Registry means the
// built-in drivers and codecs.
func WithOptions(o *nczarr.Options) Option {
	return func(c *config) error {
		if o == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithOptions: the options are nil")
		}
		c.Options = *o
		return nil
	}
}
