package store

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// fact is what a location says about an option of the driver.
type fact struct {
	value any  // nil removes the option
	weak  bool // an option that is already set does not change
}

// factsOf returns the facts of a location by their names in core/zmap/driver.
func factsOf(loc *ncurl.Location, mode driver.Mode) map[string]fact {
	facts := make(map[string]fact)
	if loc.Region != "" {
		facts[driver.FromRegion] = fact{value: loc.Region}
	}
	if loc.ProfileExplicit { // a profile that only the environment specifies is left to the driver
		facts[driver.FromProfile], facts[driver.FromUnsigned] = fact{value: loc.Profile}, fact{value: false}
	}
	if loc.Unsigned {
		facts[driver.FromProfile], facts[driver.FromUnsigned] = fact{}, fact{value: true}
	}
	if loc.Query != "" {
		facts[driver.FromQuery] = fact{value: loc.Query}
	}
	for _, p := range loc.Web {
		login := p.Key == driver.FromOrigin || p.Key == driver.FromUser || p.Key == driver.FromPassword
		facts[p.Key] = fact{value: p.Value, weak: !login}
	}
	// netcdf-c requires a top-level directory in an archive, and zarr-python could not read
	// other archives with one.
	//
	// Source: netcdf-c libnczarr/zmap_zip.c; zarr-python ZipStore.
	if loc.Format == ncurl.NCZarr && loc.Version != 3 && (mode == driver.Create || mode == driver.CreateExclusive) {
		facts[driver.FromArchiveRoot] = fact{value: "auto", weak: true}
	}
	return facts
}

// locationOptions adds the options that follow from the location to the options of the
// driver, and returns the result.
func locationOptions(d *driver.Description, loc *ncurl.Location, options []byte, mode driver.Mode) ([]byte, error) {
	facts := factsOf(loc, mode)
	set := make(map[string]json.RawMessage)
	if len(options) > 0 {
		if err := json.Unmarshal(options, &set); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", d.Name, err)
		}
	}
	for _, o := range d.Options {
		var server string
		if o.From == driver.FromOrigin && json.Unmarshal(set[o.Name], &server) == nil && server == loc.Endpoint { // the options have a login for this server
			delete(facts, driver.FromOrigin)
			delete(facts, driver.FromUser)
			delete(facts, driver.FromPassword)
		}
	}
	changed := false
	for _, o := range d.Options {
		f, known := facts[o.From]
		if _, there := set[o.Name]; !known || f.weak && there {
			continue
		}
		changed = true
		if f.value == nil {
			delete(set, o.Name)
			continue
		}
		text, err := json.Marshal(f.value)
		if err != nil {
			return nil, ncerr.New(ncerr.ErrInternal, "write driver options", d.Name, err)
		}
		set[o.Name] = text
	}
	if !changed {
		return options, nil
	}
	out, err := json.Marshal(set)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write driver options", d.Name, err)
	}
	return out, nil
}
