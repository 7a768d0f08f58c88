package ncurl

import (
	"bytes"
	"slices"
)

// Env holds the input of [Parse] other than the location. With the zero value or a nil
// *Env, Parse assumes an existing dataset and uses no settings and no probe. Parse does
// not modify an Env, so concurrent calls may share one if its Probe allows that.
type Env struct {
	// Create is set for a new dataset.
	Create bool
	// Probe reports what exists at a file path. If Probe is nil, the path is not probed.
	// Parse calls it to choose the storage of an existing dataset without a storage mode,
	// and for a plain path that may end in a fragment with an unknown key.
	Probe func(path string) PathKind
	// RC holds the entries of the rc files in reading order. Among equally specific
	// entries for one key the last one has precedence.
	RC []RCEntry
	// Profiles holds the AWS profiles by name. If it is nil, the profiles are
	// unknown and profile names are not checked.
	Profiles map[string]Profile
	// Vars holds environment variables. Parse reads only NCZARR_CONSOLIDATED,
	// AWS_PROFILE, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
	// AWS_ENDPOINT_URL and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS.
	Vars map[string]string
	// Schemes are the URL schemes that drivers declare.
	Schemes []DriverScheme
	// S3Endpoint is the configured default endpoint for s3: URLs, as
	// scheme://host[:port], or empty.
	S3Endpoint string
	// Cwd is the absolute current directory. If it is empty, a relative path stays
	// relative.
	Cwd string
	// Windows selects Windows paths, with drive letters and backslashes as
	// separators. Results always have forward slashes.
	Windows bool
}

// RCEntry is one line of an rc file.
type RCEntry struct {
	// Host is the section: host[:port][/path] with or without a scheme. An empty Host
	// matches every location.
	Host string
	// Key is the name of the setting. Its case does not matter.
	Key string
	// Value is the text after the equals sign.
	Value string
	// Source is file:line for explanations. It may be empty.
	Source string
}

// Profile holds the settings of an AWS profile that inference uses. It contains no
// credentials.
type Profile struct {
	Region          string // "region" or else "aws_region"; may be empty
	Endpoint        string // "endpoint_url"; may be empty
	Services        string // name of the services section; may be empty
	S3Endpoint      string // "endpoint_url" of s3 in that section; may be empty
	IgnoreEndpoints bool   // "ignore_configured_endpoint_urls"
}

// The environment variables that [Parse] reads from Env.Vars.
const (
	varConsolidated  = "NCZARR_CONSOLIDATED"
	varProfile       = "AWS_PROFILE"
	varRegion        = "AWS_REGION"
	varDefaultRegion = "AWS_DEFAULT_REGION"
	varEndpointS3    = "AWS_ENDPOINT_URL_S3"
	varEndpoint      = "AWS_ENDPOINT_URL"

	varIgnoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// PathKind describes what exists at a path.
type PathKind uint8

// The results of a probe.
const (
	NotProbed  PathKind = iota // the path was not probed
	Missing                    // no file exists
	Directory                  // a directory
	ZipArchive                 // a file that begins with a zip signature
	NetCDF3                    // a file that begins with the classic netCDF signature
	HDF5                       // a file that begins with the HDF5 signature
	References                 // a reference file of Kerchunk, which Sniff does not detect
	OtherFile                  // any other file, including an empty one
)

// String returns a phrase for messages, such as "a zip archive".
func (p PathKind) String() string {
	names := [...]string{
		"not probed", "nothing", "a directory", "a zip archive",
		"a netCDF-3 file", "an HDF5 (netCDF-4) file", "a reference file", "a file of another kind",
	}
	if int(p) < len(names) {
		return names[p]
	}
	return names[OtherFile]
}

// SniffLen is the number of leading bytes of a file that [Sniff] needs. For a shorter
// file, the caller passes all bytes.
const SniffLen = 8

// Sniff classifies a regular file by its first bytes as [ZipArchive], [NetCDF3],
// [HDF5] or [OtherFile]. It does not retain head.
//
// Source: the signatures of the zip, netCDF classic and HDF5 formats.
func Sniff(head []byte) PathKind {
	zip := []string{"PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x07\x08"}
	has := func(s string) bool { return bytes.HasPrefix(head, []byte(s)) }
	switch {
	case slices.ContainsFunc(zip, has):
		return ZipArchive
	case slices.ContainsFunc([]string{"CDF\x01", "CDF\x02", "CDF\x05"}, has):
		return NetCDF3
	case has("\x89HDF\r\n\x1a\n"):
		return HDF5
	}
	return OtherFile
}
