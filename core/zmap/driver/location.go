package driver

import (
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Locality states where a driver keeps stores, and so what a program may know about a
// store without the driver. The zero value states nothing.
type Locality string

// The localities.
const (
	// LocalDirectory means that Path is a directory of the local file system, and that
	// each object is the file whose path below it is the key. The caller may examine,
	// lock, rename and replace the directory itself.
	LocalDirectory Locality = "directory"
	// LocalArchive means that Path is a local zip archive whose members are the objects,
	// and that each Flush writes a new file. The caller may examine and replace the file
	// itself.
	LocalArchive Locality = "archive"
	// OnServer means that stores are on a server or in a bucket, and that every prefix of
	// a store is a store too. The first segment of Path is a bucket or similar.
	OnServer Locality = "server"
)

// Facts of a location that an option can take its value from; see Option.From. Settings
// come from the rc files.
const (
	FromRegion   = "region"   // region of an object store
	FromProfile  = "profile"  // AWS profile, if the URL or an rc file selects one
	FromUnsigned = "unsigned" // whether the location requires anonymous access; no value if it selects neither this nor a profile
	FromQuery    = "query"    // raw query of the URL
	// The login for the server of the URL. It replaces all three options, unless the
	// option with FromOrigin has the server of the URL already.
	FromOrigin   = "origin" // the server, as scheme://host[:port]
	FromUser     = "user"
	FromPassword = "password"
	// Settings that do not replace an option that is already set.
	FromNetrc     = "netrc"
	FromProxy     = "proxy"
	FromCAFile    = "ca_file"
	FromUserAgent = "user_agent"
	// FromArchiveRoot is "auto" for a new dataset in NCZarr on Zarr v2, which netcdf-c
	// reads from an archive only if all names in it begin with one directory. It does not
	// replace an option that is already set.
	FromArchiveRoot = "archive_root"
)

// TakesQuery reports whether an option of the driver takes the query of a URL.
func (d *Description) TakesQuery() bool {
	return slices.ContainsFunc(d.Options, func(o Option) bool { return o.From == FromQuery })
}

// CheckSchemes fails with ncerr.ErrInvalid if the driver has more than 16 schemes or one
// is malformed: it must have from 2 to 32 characters, be in lower case, begin with a
// letter and contain only letters, digits, "+", "-" and ".".
func (d *Description) CheckSchemes() error {
	if len(d.Schemes) > 16 {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the driver %s has %d URL schemes, more than the limit of 16", d.Name, len(d.Schemes))
	}
	for _, s := range d.Schemes {
		const letters = "abcdefghijklmnopqrstuvwxyz"
		if len(s) < 2 || len(s) > 32 || !strings.Contains(letters, s[:1]) || strings.Trim(s, letters+"0123456789+-.") != "" {
			return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the driver %s has an invalid URL scheme %q", d.Name, s)
		}
	}
	return nil
}
