package store

import (
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Describe returns the description of the driver of a location, or a description without
// details if the driver is unknown; [Open] then returns the error. It starts the process
// of a plugin that has not described itself yet.
func Describe(reg registry.Registry, loc *ncurl.Location) driver.Description {
	opener, err := reg.Driver(loc.Driver)
	if err != nil {
		return driver.Description{Name: loc.Driver}
	}
	return opener.Describe()
}

// IsLocal reports whether the stores of a driver are local directories or files that the
// program may examine and replace itself.
func IsLocal(d *driver.Description) bool {
	return d.Locality == driver.LocalDirectory || d.Locality == driver.LocalArchive
}

// Schemes returns the URL schemes that the drivers of a registry declare, for ncurl.Env.
// It is empty if text, a URL or path, needs none of them. Otherwise plugins that have not
// described themselves yet are started.
func Schemes(reg registry.Registry, text string) []ncurl.DriverScheme {
	if ncurl.HasRules(ncurl.Scheme(text)) {
		return nil
	}
	var out []ncurl.DriverScheme
	for _, d := range reg.Drivers() {
		opener, err := reg.Driver(d.Name)
		if err != nil {
			continue
		}
		d = opener.Describe()
		if d.CheckSchemes() != nil {
			continue
		}
		aws := false
		for _, o := range d.Options {
			aws = aws || o.From == driver.FromRegion || o.From == driver.FromProfile || o.From == driver.FromUnsigned
		}
		for _, s := range d.Schemes {
			out = append(out, ncurl.DriverScheme{Name: s, Driver: d.Name, Servers: d.Servers, Query: d.TakesQuery(), AWS: aws})
		}
	}
	return out
}
