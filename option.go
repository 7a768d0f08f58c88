package nczarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/budget"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Option configures [Open] or [Create]. Every option has a default. The order of
// options does not matter. Open and Create fail with [ErrInvalid] for an invalid
// option, a repeated option with a value, and an option that does not apply to the
// function.
type Option func(*config) error

// config collects the options of one call.
type config struct {
	dataset.CreateOptions
	base          *dataset.Options // the options of WithOptions, or nil
	driverOptions map[string][]byte
	drivers       []driver.Opener
	filters       []codecdriver.Provider
	seen          []string // names of the options with a value
	opens         string   // name of an option that only Open accepts, if one was used
	creates       string   // name of an option that only Create accepts, if one was used
}

func gather(opts []Option) (*config, error) {
	c, err := (&config{}).with(opts)
	if err == nil && c.base != nil { // the other options override those of WithOptions
		merged := &config{}
		merged.Options = *c.base
		c, err = merged.with(opts)
	}
	if err != nil {
		return nil, err
	}
	c.Registry = registryOf(c.drivers, c.filters, c.Registry)
	all := maps.Clone(c.DriverOptions) // the original belongs to the caller
	if all == nil {
		all = map[string][]byte{}
	}
	for _, name := range slices.Sorted(maps.Keys(c.driverOptions)) {
		if _, err := c.Registry.Driver(name); err != nil {
			return nil, ncerr.Errorf(ErrInvalid, "", "", "WithDriverOptions(%q): %w", name, err)
		}
		all[name] = c.driverOptions[name]
	}
	c.DriverOptions = all
	return c, nil
}

// with applies opts to c.
func (c *config) with(opts []Option) (*config, error) {
	c.NoClobber, c.driverOptions = true, map[string][]byte{}
	for i, o := range opts {
		if o == nil {
			return nil, ncerr.Errorf(ErrInvalid, "", "", "option %d is nil", i)
		}
		if err := o(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkRepeated fails if an option with a value has occurred before.
func (c *config) checkRepeated(name string) error {
	if slices.Contains(c.seen, name) {
		return ncerr.Errorf(ErrInvalid, "", "", "the option %s is specified twice", name)
	}
	c.seen = append(c.seen, name)
	return nil
}

// Writable makes [Open] open a dataset for reading and writing. By default, a dataset
// is opened for reading only.
func Writable() Option {
	return func(c *config) error {
		c.Update, c.opens = true, "Writable"
		return nil
	}
}

// Replace lets [Create] replace an existing dataset. The new dataset is written to a
// temporary location and replaces the old one at Close. Until then readers see the old
// dataset, and Abort keeps it. Objects that do not belong to the old dataset are not
// removed. By default, Create fails with [ErrExists].
func Replace() Option {
	return func(c *config) error {
		c.NoClobber, c.creates = false, "Replace"
		return nil
	}
}

// Force lets [Create] create a dataset inside another dataset, or replace a directory
// that contains something else. The content of the directory is deleted. By default,
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
// network open the dataset with one request. By default, Create does not write it.
func Consolidated() Option {
	return func(c *config) error {
		c.CreateOptions.Consolidated, c.creates = true, "Consolidated"
		return nil
	}
}

// SingleWriter declares that no other program writes the dataset while it is open.
// Without it, the first write of a part of a chunk logs a warning if the store has no
// conditional writes.
func SingleWriter() Option {
	return func(c *config) error {
		c.Options.SingleWriter = true
		return nil
	}
}

// WithWorkers sets the number of chunks processed concurrently, at least 1. The default
// is GOMAXPROCS, or more for high-latency stores.
func WithWorkers(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithWorkers(%d): the number of workers must be at least 1", n)
		}
		c.Workers = n
		return c.checkRepeated("WithWorkers")
	}
}

// ChunkCache sets the maximum size in bytes of the decoded chunks that the dataset keeps
// after reads of parts of them, so that reading a chunk row by row decodes it once. The
// default is 32 MiB; 0 disables the cache. See [Dataset.Refresh].
func ChunkCache(bytes int64) Option {
	return func(c *config) error {
		if bytes < 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "ChunkCache(%d): the size must not be negative", bytes)
		}
		if c.Options.ChunkCache = bytes; bytes == 0 {
			c.Options.ChunkCache = -1
		}
		return c.checkRepeated("ChunkCache")
	}
}

// WriteBuffer sets the maximum size in bytes of the parts of chunks that the dataset
// keeps in memory before it stores them, so that writing a chunk row by row encodes and
// stores it once. The default is 32 MiB; with 0, every write stores its data
// immediately. See [Write].
func WriteBuffer(bytes int64) Option {
	return func(c *config) error {
		if bytes < 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "WriteBuffer(%d): the size must not be negative", bytes)
		}
		if c.Options.WriteBuffer = bytes; bytes == 0 {
			c.Options.WriteBuffer = -1
		}
		return c.checkRepeated("WriteBuffer")
	}
}

// AllowPrefix lets the references of a dataset read objects below a URL or path. References
// are entries of a reference file, such as one of Kerchunk, that refer to parts of other files.
// Requests are anonymous unless the URL selects credentials, as with "#aws.profile=NAME". The
// option may be repeated. By default, references can only read files below the directory of
// the reference file.
func AllowPrefix(url string) Option {
	return func(c *config) error {
		c.References.Allow, c.opens = append(c.References.Allow, store.Prefix{URL: url}), "AllowPrefix"
		return nil
	}
}

// AllowLocal lets the hosts of [AllowPrefix] have loopback, link-local and private addresses. By
// default, only an address or "localhost" in the URL itself permits such a connection.
func AllowLocal() Option {
	return func(c *config) error {
		c.References.AllowLocal, c.opens = true, "AllowLocal"
		return nil
	}
}

// MemoryLimit sets the maximum working memory of the dataset in bytes: the scratch memory of
// reads and writes, ChunkCache, WriteBuffer, and the documents of Open. It does not include
// slices that the program passes or gets. A call that needs more fails with [ErrLimit], and
// otherwise waits until other calls have released enough. The default is ten times
// Limits.MaxChunk, which restricts only many calls with very large chunks.
func MemoryLimit(bytes int64) Option {
	return func(c *config) error {
		if bytes <= 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "MemoryLimit(%d): the size must be positive", bytes)
		}
		c.Budget = budget.New(bytes)
		return c.checkRepeated("MemoryLimit")
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
		return c.checkRepeated("WithLogger")
	}
}

// Limits restrict sizes that a dataset declares. A size above its limit causes
// [ErrLimit]. A zero field means its default.
type Limits struct {
	MaxMetadata  int64 // bytes of one metadata document; default 64 MiB
	MaxDocuments int64 // bytes of all documents of a dataset; default 256 MiB
	MaxChunk     int64 // bytes of one decoded chunk, and of the strings of one read or write; default 2 GiB
	MaxElements  int64 // elements of one chunk; default 2^30
	MaxChunks    int64 // chunks of a variable that is copied; default 2^28
	MaxData      int64 // bytes of a variable that is copied, or of the result of one read; default 16 TiB
	MaxNodes     int   // groups and variables of a dataset; default 1,000,000
	MaxDepth     int   // nesting of groups; default 256
	MaxKeys      int   // keys in one listing; default 2^22
	MaxListing   int64 // bytes of all keys in one listing; default 256 MiB
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option {
	return func(c *config) error {
		if min(l.MaxMetadata, l.MaxDocuments, l.MaxChunk, l.MaxElements, l.MaxChunks, l.MaxData, l.MaxListing, int64(l.MaxNodes), int64(l.MaxDepth), int64(l.MaxKeys)) < 0 {
			return ncerr.Errorf(ErrInvalid, "", "", "WithLimits: a limit is negative")
		}
		c.Limits = dataset.Limits(l)
		return c.checkRepeated("WithLimits")
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
		return c.checkRepeated(fmt.Sprintf("WithDriver for the driver %q", d.Describe().Name))
	}
}

// WithDriverOptions sets the options of a storage driver. options is a struct or map
// that encoding/json encodes as an object. The reference page configuration.md lists
// the keys of each driver. The driver must be built in or added by [WithDriver] or
// [WithOptions].
func WithDriverOptions(name string, options any) Option {
	return func(c *config) error {
		text, err := json.Marshal(options)
		if err != nil || !bytes.HasPrefix(text, []byte("{")) {
			return ncerr.Errorf(ErrInvalid, "", "", "WithDriverOptions(%q): the options are not a JSON object: %T", name, options)
		}
		c.driverOptions[name] = text
		return c.checkRepeated(fmt.Sprintf("WithDriverOptions(%q)", name))
	}
}

// WithCodecs adds a provider of codecs; see core/codec/driver. It takes precedence over
// the built-in codecs. Of several providers of the same codec, the first one is used.
func WithCodecs(p codecdriver.Provider) Option {
	return func(c *config) error {
		if p == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithCodecs: the provider is nil")
		}
		c.filters = append(c.filters, p)
		return nil
	}
}

// WithOptions sets all options of core/dataset, including the registry. Use it with the
// options that core/session returns, which contain the settings and plugins of nczctl,
// or with a registry of core/plugin/host. Other options override them: [WithLimits]
// replaces all limits, [WithDriverOptions] all options of one driver. If Registry is
// nil, the built-in drivers and codecs are used.
func WithOptions(o *dataset.Options) Option {
	return func(c *config) error {
		if o == nil {
			return ncerr.Errorf(ErrInvalid, "", "", "WithOptions: the options are nil")
		}
		c.base = o
		return c.checkRepeated("WithOptions")
	}
}
