// Package store opens the store at a location: it finds the driver, derives the driver's
// options from the location, and puts the layers and the portable Map in front of the
// driver's Map. It knows neither datasets nor the names of metadata documents.
//
//	s, err := store.Open(ctx, loc, driver.Read, &store.Options{Registry: reg})
//	defer s.Close(ctx)
//	body, _, err := s.ReadAll(ctx, "temp/0.0", 0)
package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Options configures how stores are opened. Open does not modify them, so several calls
// may share them.
type Options struct {
	// Registry supplies the drivers. It is required.
	Registry registry.Registry
	// DriverOptions maps the name of a driver to its options, a JSON object. Open adds
	// the options that follow from the location, as the driver's description says.
	DriverOptions map[string][]byte
	// Documents lists the names of metadata documents; see driver.OpenSpec.
	Documents []string
	// Wrap, if not nil, wraps the driver's Map before any layer, so that the wrapper sees
	// every single request. It may be called concurrently.
	Wrap func(driver.Map) driver.Map
	// Remote configures the layers of high-latency stores. Its retries also apply to
	// opening a store of any driver. The zero value means the defaults of
	// layer.RemoteOptions. Cache.Identity identifies the reader if location and
	// DriverOptions do not.
	Remote layer.RemoteOptions
	// MaxList and MaxListBytes limit listings; see zmap.Options. 0 means the defaults of
	// core/zmap.
	MaxList      int
	MaxListBytes int64
}

// Store is an open store. It is safe for concurrent use, but no method may be called
// during or after Close.
type Store struct {
	*zmap.Map
	opener driver.Opener
	desc   driver.Description
	spec   driver.OpenSpec
	many   bool
}

// Open opens the store at a location in the given mode. Drivers of high-latency stores
// may send no request before the first read. The caller must close the result.
//
// Errors: ncerr.ErrUnsupported for an unknown driver, ncerr.ErrInvalid for options that
// are not a JSON object, and those of driver.Opener.
func Open(ctx context.Context, loc *ncurl.Location, mode driver.Mode, o *Options) (*Store, error) {
	opener, err := o.Registry.Driver(loc.Driver)
	if err != nil {
		return nil, ncerr.Wrap("open", loc.Display, err)
	}
	s := &Store{
		desc:   opener.Describe(),
		opener: layer.RetryOpener(opener, &o.Remote.Retry),
		spec:   driver.OpenSpec{Path: loc.Path, Endpoint: loc.Endpoint, Options: o.DriverOptions[loc.Driver], Mode: mode, Documents: o.Documents},
	}
	if s.spec.Options, err = locationOptions(&s.desc, loc, s.spec.Options, mode); err != nil {
		return nil, err
	}
	raw, err := s.opener.Open(ctx, s.spec)
	if err != nil {
		return nil, ncerr.Wrap("open", loc.Path, err)
	}
	_, s.many = raw.(driver.GetManyer)
	if o.Wrap != nil {
		raw = o.Wrap(raw)
	}
	if raw.Capabilities().Latency == driver.Remote {
		s.many = true
		if raw, err = remote(ctx, raw, loc, s.spec, o.Remote); err != nil {
			return nil, err
		}
	}
	s.Map = zmap.New(raw, &zmap.Options{
		Name: loc.Driver, Location: printablePlace(raw, loc), ReadOnly: !mode.Writable(),
		InFlight: o.Remote.InFlight, MaxList: o.MaxList, MaxListBytes: o.MaxListBytes,
	})
	return s, nil
}

// Driver returns the description of the driver.
func (s *Store) Driver() *driver.Description { return &s.desc }

// Path returns the location of the store in the form that the driver uses.
func (s *Store) Path() string { return s.spec.Path }

// ReadsMany reports whether one read of many objects is cheaper than many reads.
func (s *Store) ReadsMany() bool { return s.many }

// Remove deletes the whole store. Its error has the kind ncerr.ErrNoDataset if the store
// does not exist.
func (s *Store) Remove(ctx context.Context) error { return s.opener.Remove(ctx, s.spec) }

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
