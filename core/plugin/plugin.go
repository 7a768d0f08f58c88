package plugin

import (
	"runtime/debug"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// The protocol version that this package speaks. A major is a new contract; a
// minor adds to it.
const (
	ProtocolMajor = handshake.Major
	ProtocolMinor = handshake.Minor
)

// The ceilings of the protocol, in bytes.
const (
	// MaxPart is the largest payload of one message, 1 MiB.
	MaxPart = handshake.MaxPart
	// MaxMessage is the largest message that either side accepts, 4 MiB: what
	// gRPC accepts in every language unless told otherwise.
	MaxMessage = handshake.MaxMessage
)

// Option configures [Serve].
type Option func(*server.Config)

// Driver serves a storage driver. A plugin may serve several.
func Driver(o driver.Opener) Option {
	return func(c *server.Config) { c.Drivers = append(c.Drivers, o) }
}

// Filter serves the codecs of a provider. A plugin may serve several.
func Filter(p codecdriver.Provider) Option {
	return func(c *server.Config) { c.Filters = append(c.Filters, p) }
}

// Name sets the plugin's name. The default is the name of its first driver,
// else the id of its first codec.
func Name(name string) Option { return func(c *server.Config) { c.Name = name } }

// Version sets the plugin's version. The default is the version of the main
// module as the Go tool recorded it.
func Version(version string) Option { return func(c *server.Config) { c.Version = version } }

// config applies opts and the defaults.
func config(opts []Option) server.Config {
	c := server.Config{BuildID: handshake.BuildID()}
	for _, o := range opts {
		o(&c)
	}
	if c.Name == "" && len(c.Drivers) > 0 {
		c.Name = c.Drivers[0].Describe().Name
	}
	for _, f := range c.Filters {
		if ds := f.Describe(); c.Name == "" && len(ds) > 0 {
			c.Name = ds[0].ID
		}
	}
	if c.Version == "" {
		c.Version = "unknown"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			c.Version = info.Main.Version
		}
	}
	return c
}

// Builtin is what a program has in itself. It is a registry: its methods give
// the drivers and filters in process.
type Builtin struct {
	Openers   []driver.Opener
	Providers []codecdriver.Provider
}

// Driver gives the driver of that name, or ncerr.ErrUnsupported.
func (b Builtin) Driver(name string) (driver.Opener, error) {
	for _, o := range b.Openers {
		if o.Describe().Name == name {
			return o, nil
		}
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "find driver", name, "no such driver is built in")
}

// Filter gives the provider of a codec by one of its names, or
// ncerr.ErrNoFilter.
func (b Builtin) Filter(id string) (codecdriver.Provider, error) {
	for _, p := range b.Providers {
		for _, d := range p.Describe() {
			if d.Has(id) {
				return p, nil
			}
		}
	}
	return nil, ncerr.Errorf(ncerr.ErrNoFilter, "find filter", id, "no such filter is built in")
}

// Drivers describes the drivers.
func (b Builtin) Drivers() []driver.Description {
	var out []driver.Description
	for _, o := range b.Openers {
		out = append(out, o.Describe())
	}
	return out
}

// Filters describes the codecs.
func (b Builtin) Filters() []codecdriver.Description {
	var out []codecdriver.Description
	for _, p := range b.Providers {
		out = append(out, p.Describe()...)
	}
	return out
}
