package plugin

import (
	"runtime/debug"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// The protocol version that this package implements. A new major version breaks
// compatibility; a new minor version only adds to the protocol.
const (
	ProtocolMajor = handshake.Major
	ProtocolMinor = handshake.Minor
)

// Size limits of the protocol, in bytes.
const (
	// MaxPart is the largest payload of one message, 1 MiB.
	MaxPart = handshake.MaxPart
	// MaxMessage is the largest message that either side accepts, 4 MiB. It is the
	// default limit of gRPC in every language.
	MaxMessage = handshake.MaxMessage
)

// Option configures [Serve].
type Option func(*server.Config)

// Driver returns an Option that adds a storage driver to the plugin.
func Driver(o driver.Opener) Option {
	return func(c *server.Config) { c.Drivers = append(c.Drivers, o) }
}

// Filter returns an Option that adds the codecs of a provider to the plugin.
func Filter(p codecdriver.Provider) Option {
	return func(c *server.Config) { c.Filters = append(c.Filters, p) }
}

// Name returns an Option that sets the plugin's name. The default is the name of its
// first driver, or the id of its first codec if it has no driver.
func Name(name string) Option { return func(c *server.Config) { c.Name = name } }

// Version returns an Option that sets the plugin's version. The default is the version
// of the main module in the build information.
func Version(version string) Option { return func(c *server.Config) { c.Version = version } }

// config applies opts and fills in the defaults.
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

// Builtin holds the drivers and filters compiled into the program.
type Builtin struct {
	Openers   []driver.Opener
	Providers []codecdriver.Provider
}

// Registry returns a registry of the drivers and filters for use in this process.
func (b Builtin) Registry() *registry.Static { return registry.New(b.Openers, b.Providers...) }
