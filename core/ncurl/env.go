package ncurl

import (
	"bytes"
	"slices"
)

// Env is what inference needs to know about the surroundings. The zero value
// and a nil *Env mean: open (not create), nothing known about any path, no
// settings. Parse only reads it, so that one Env may serve concurrent calls
// when its Probe allows them.
type Env struct {
	// Create says that the location is for a new dataset: nothing is probed.
	Create bool
	// Probe says what lies at a file path; nil means that nothing is known.
	// It is called at most once per Parse, only when opening a path for which
	// no storage mode is given.
	Probe func(path string) Probed
	// RC holds the entries of the rc files in reading order: among equally
	// specific entries for one key the last wins.
	RC []RCEntry
	// Profiles holds the AWS profiles by name; nil means that they were not
	// read, and then no profile name is checked.
	Profiles map[string]Profile
	// Vars holds environment variables; only NCZARR_CONSOLIDATED, AWS_PROFILE,
	// AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL
	// are looked at.
	Vars map[string]string
	// S3Endpoint is the configured default endpoint for s3: URLs, as
	// scheme://host[:port]; empty means none.
	S3Endpoint string
	// Cwd is the absolute current directory; when it is empty a relative path
	// stays relative.
	Cwd string
	// Windows selects the path grammar of that system: drive letters, and
	// backslash as a separator. Results always have forward slashes.
	Windows bool
}

// RCEntry is one line of an rc file.
type RCEntry struct {
	// Host is the section, host[:port][/path] with or without a scheme; empty
	// means every location.
	Host string
	// Key is compared without regard to case.
	Key string
	// Value is the text after the equals sign.
	Value string
	// Source is file:line, for explanations; may be empty.
	Source string
}

// Profile is what inference needs of an AWS profile. It holds no credential.
type Profile struct {
	Region          string // "region", else "aws_region"; may be empty
	Endpoint        string // "endpoint_url"; may be empty
	Services        string // the section of "services"; may be empty
	S3Endpoint      string // "endpoint_url" of s3 in that section; may be empty
	IgnoreEndpoints bool   // "ignore_configured_endpoint_urls"
}

// The environment variables that [Parse] looks for in Env.Vars.
const (
	varConsolidated  = "NCZARR_CONSOLIDATED"
	varProfile       = "AWS_PROFILE"
	varRegion        = "AWS_REGION"
	varDefaultRegion = "AWS_DEFAULT_REGION"
	varEndpointS3    = "AWS_ENDPOINT_URL_S3"
	varEndpoint      = "AWS_ENDPOINT_URL"

	varIgnoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// Probed says what lies at a path.
type Probed uint8

// What a probe can find.
const (
	NotProbed  Probed = iota // nothing is known
	Missing                  // there is nothing
	Directory                // a directory
	ZipArchive               // a file that begins with a zip signature
	NetCDF3                  // a file that begins with the classic netCDF signature
	HDF5                     // a file that begins with the HDF5 signature
	OtherFile                // any other file, an empty one too
)

// String gives a phrase for messages, such as "a zip archive".
func (p Probed) String() string {
	names := [...]string{
		"not looked at", "nothing", "a directory", "a zip archive",
		"a netCDF-3 file", "an HDF5 (netCDF-4) file", "a file of another kind",
	}
	if int(p) < len(names) {
		return names[p]
	}
	return names[OtherFile]
}

// SniffLen is how many leading bytes of a file [Sniff] wants; fewer will do
// when the file is shorter.
const SniffLen = 8

// Sniff classifies a regular file by its first bytes: [ZipArchive],
// [NetCDF3], [HDF5] or [OtherFile]. It keeps no reference to head.
// Source: the signatures of the zip, netCDF classic and HDF5 formats.
func Sniff(head []byte) Probed {
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
