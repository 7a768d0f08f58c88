package store

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// formatOptions adds the driver options that the location or its format requires, and
// returns the result. A new archive of NCZarr on Zarr v2 has a top-level directory, which
// netcdf-c requires. Other archives have no such directory, because zarr-python could not
// read them. An archive option that is already set does not change.
//
// Source: netcdf-c libnczarr/zmap_zip.c; zarr-python ZipStore.
func formatOptions(loc *ncurl.Location, options []byte, mode driver.Mode) ([]byte, error) {
	switch loc.Driver {
	case ncurl.DriverHTTP:
		return webOptions(loc, options)
	case ncurl.DriverS3:
		return bucketOptions(loc, options)
	}
	if loc.Driver != ncurl.DriverZip || loc.Format != ncurl.NCZarr || loc.Version == 3 || mode != driver.Create && mode != driver.CreateExclusive {
		return options, nil
	}
	set := make(map[string]json.RawMessage)
	if len(options) > 0 {
		if err := json.Unmarshal(options, &set); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", "zip", err)
		}
	}
	if _, ok := set["prefix"]; !ok {
		set["prefix"] = json.RawMessage(`"auto"`)
	}
	out, err := json.Marshal(set)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write driver options", "zip", err)
	}
	return out, nil
}

// webOptions adds the settings of the URL and the rc files to the options of the http
// driver. The query of the URL replaces the query in the options. A login in the rc files
// replaces the login in the options, unless the login in the options is for the server of
// the URL. Other options that are already set do not change.
func webOptions(loc *ncurl.Location, options []byte) ([]byte, error) {
	if loc.Query == "" && len(loc.Web) == 0 {
		return options, nil
	}
	set := make(map[string]any)
	if len(options) > 0 {
		if err := json.Unmarshal(options, &set); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", "http", err)
		}
	}
	kept := set["origin"] == loc.Endpoint
	for _, p := range loc.Web {
		login := p.Key == "origin" || p.Key == "user" || p.Key == "password"
		if _, there := set[p.Key]; login && !kept || !login && !there {
			set[p.Key] = p.Value
		}
	}
	if loc.Query != "" {
		set["query"] = loc.Query
	}
	out, err := json.Marshal(set)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write driver options", "http", err)
	}
	return out, nil
}

// bucketOptions adds the settings of the location to the options of the s3 driver: its
// region and an explicit profile, which override the options, and unsigned requests. A
// profile that only the environment specifies is left to the credential chain of the
// AWS SDK.
func bucketOptions(loc *ncurl.Location, options []byte) ([]byte, error) {
	set := make(map[string]any)
	if len(options) > 0 {
		if err := json.Unmarshal(options, &set); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", "s3", err)
		}
	}
	if loc.Region != "" {
		set["region"] = loc.Region
	}
	if loc.ProfileExplicit {
		set["profile"], set["unsigned"] = loc.Profile, false
	}
	if loc.Unsigned {
		set["unsigned"] = true
		delete(set, "profile")
	}
	if len(set) == 0 {
		return options, nil
	}
	out, err := json.Marshal(set)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write driver options", "s3", err)
	}
	return out, nil
}
