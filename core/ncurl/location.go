package ncurl

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Names of the drivers that inference can choose.
const (
	DriverFile = "file" // a directory tree
	DriverZip  = "zip"  // a zip archive
	DriverS3   = "s3"   // a bucket of an S3-compatible server or of Google Cloud Storage
	DriverHTTP = "http" // a web server, read only
	DriverMem  = "mem"  // memory of this process, for tests
)

// Format is the format in which a dataset is read or written.
type Format string

// The formats.
const (
	// NCZarr reads and writes the NCZarr metadata. A store without it is read as
	// pure Zarr.
	NCZarr Format = "nczarr"
	// Zarr is pure Zarr. NCZarr metadata is not written, and only its attribute
	// types are read.
	Zarr Format = "zarr"
	// Bytes is a netCDF-3 or HDF5 file that is read by byte ranges. It is not
	// Zarr: Driver opens the file itself, not a store.
	Bytes Format = "bytes"
)

// Location describes where a dataset is and how to open it. It shares no memory with the
// Env passed to Parse. Callers must not modify it, so it is safe for concurrent use.
type Location struct {
	// Driver is the name of the storage driver: one of the Driver constants, the value
	// of the fragment key "driver", or the driver that declares the scheme.
	Driver string `json:"driver"`
	// Path is the location as the driver expects it. For file and zip it is a clean
	// path with forward slashes, absolute unless Env.Cwd was empty. For s3 it is
	// bucket[/key]. For http it is the percent-encoded path with a leading and
	// without a trailing slash. For mem it is the name.
	Path string `json:"path"`
	// Scheme is the scheme of the URL if a driver declares it. It is empty for a scheme
	// that this package has inference rules for.
	Scheme string `json:"scheme,omitempty"`
	// Endpoint is the server of s3 and http, and of a declared scheme with servers, as
	// scheme://host[:port], without a default port. It is empty for other drivers. An s3
	// endpoint requires path-style requests and does not contain the bucket.
	Endpoint string `json:"endpoint,omitempty"`
	// Bucket and Key are the parts of an s3 Path. Key is the prefix of the dataset.
	// It may be empty and has no slash at either end.
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key,omitempty"`
	// Query is the raw query of a URL of a web server or declared scheme, which every
	// request repeats. It may hold secrets; see [Location.Redacted].
	Query string `json:"query,omitempty"`
	// Web holds the settings of rc files for an http Location, as options of the
	// driver: user, password, netrc, proxy, ca_file, user_agent. It may hold
	// secrets and is never printed.
	Web []Param `json:"-"`

	// Format is the format to read or write. The default is NCZarr.
	Format Format `json:"format"`
	// FormatGiven is set if a mode selects the format. Otherwise the metadata of an
	// existing dataset determines the format, and a copy may keep the format of its
	// source.
	FormatGiven bool `json:"format_given"`
	// Xarray is false if noxarray is a mode. In that case _ARRAY_DIMENSIONS is neither
	// read nor written.
	Xarray bool `json:"xarray"`
	// Version is the version of Zarr that the URL requests, or 0 if it requests no
	// version. 2 selects the v2 documents of a store that has documents of both versions,
	// and 3 requires Zarr v3.
	Version int `json:"zarr_format,omitempty"`
	// Consolidated requests consolidated metadata, which is used for reading and written
	// on creation.
	Consolidated bool `json:"consolidated"`
	// Separator is the dimension separator of new arrays, "." or "/", or empty for
	// the writer's default.
	Separator string `json:"dimension_separator,omitempty"`

	// References is set if Path is a reference file of Kerchunk, which presents parts of other
	// files as a Zarr store. Driver opens the directory or prefix that contains the file.
	References bool `json:"references,omitempty"`

	// Region is the S3 region. It is empty if no setting selects one, except that an
	// Amazon host always has a region.
	Region string `json:"region,omitempty"`
	// Profile is the AWS profile whose settings were used. It is empty if no profile
	// was chosen or Unsigned is set.
	Profile string `json:"profile,omitempty"`
	// ProfileExplicit is set if the URL or an rc file selects the profile. If so,
	// credentials must come from that profile. Otherwise they come from the AWS chain:
	// environment variables first, then the profile.
	ProfileExplicit bool `json:"profile_explicit,omitempty"`
	// Unsigned requests anonymous access (profile "none" or "no").
	Unsigned bool `json:"unsigned,omitempty"`

	// Mode is the final mode list: the given modes in order, then the inferred
	// ones, then the chosen storage mode.
	Mode []string `json:"mode"`
	// Fragment holds the keys that inference does not use, in order: "log" and
	// "show", other aws.* keys, and unknown keys.
	Fragment []Param `json:"fragment,omitempty"`
	// Warnings has one line for each accepted part that is probably a mistake, such
	// as an unknown key. It contains no secrets.
	Warnings []string `json:"warnings,omitempty"`
	// Steps lists the decisions of the inference in order. It contains no secrets.
	Steps []Step `json:"steps,omitempty"`
	// Display is the canonical URL with secrets masked, for messages.
	Display string `json:"display"`

	// IsFile is set if Path is a path of the local file system.
	IsFile  bool `json:"-"`
	windows bool // Path is a Windows path
}

// Param is a key of the fragment with its decoded value.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"` // empty if the key has no value
}

// Step is one decision of the inference.
type Step struct {
	Rule   string `json:"rule"`             // short name of the rule, such as "macro"
	Before string `json:"before,omitempty"` // input of the rule
	After  string `json:"after,omitempty"`  // result of the rule
	Why    string `json:"why"`              // reason
}

// String returns the canonical URL. Parsing it in the same Env returns an equal Location,
// unless an rc section matches the canonical host but not the original one. The URL
// contains storage, endpoint and region, so parsing it does not probe again. The URL may
// contain a secret if the parsed location did. Use Display in messages.
func (l *Location) String() string { return l.url(false) }

// Param returns the value of a key in Fragment and reports whether it exists. Keys
// are compared without regard to case.
func (l *Location) Param(key string) (string, bool) {
	for _, f := range l.Fragment {
		if strings.EqualFold(f.Key, key) {
			return f.Value, true
		}
	}
	return "", false
}

// Equal reports whether two Locations open the same dataset in the same way. It does
// not compare Steps and Warnings.
func (l *Location) Equal(other *Location) bool {
	if l == nil || other == nil {
		return l == other
	}
	a, b := *l, *other
	return l.url(false) == other.url(false) && a.Driver == b.Driver && a.Scheme == b.Scheme && a.Path == b.Path &&
		a.Endpoint == b.Endpoint && a.Bucket == b.Bucket && a.Key == b.Key && a.Query == b.Query &&
		a.Format == b.Format && a.FormatGiven == b.FormatGiven && a.Xarray == b.Xarray && a.Version == b.Version &&
		a.Consolidated == b.Consolidated && a.Separator == b.Separator && a.Region == b.Region &&
		a.Profile == b.Profile && a.ProfileExplicit == b.ProfileExplicit && a.Unsigned == b.Unsigned &&
		a.Display == b.Display && slices.Equal(a.Mode, b.Mode) && slices.Equal(a.Fragment, b.Fragment) && slices.Equal(a.Web, b.Web)
}

// Redacted returns a copy with masked secrets in Query and Fragment, for printing as
// JSON. The copy cannot be used to open the dataset.
func (l *Location) Redacted() *Location {
	c := *l
	c.Query = maskQuery(l.Query)
	c.Fragment = slices.Clone(l.Fragment)
	for i, f := range c.Fragment {
		c.Fragment[i].Value = maskValue(f.Key, f.Value)
	}
	return &c
}

// Explain writes Steps and Warnings to w as text. It returns the first error from w.
func (l *Location) Explain(w io.Writer) error {
	for i, s := range l.Steps {
		line := fmt.Sprintf("%2d. %s: %s\n", i+1, s.Rule, s.Why)
		switch {
		case s.Before != "" && s.After != "":
			line += fmt.Sprintf("      %s  ->  %s\n", s.Before, s.After)
		case s.After != "":
			line += fmt.Sprintf("      %s\n", s.After)
		case s.Before != "":
			line += fmt.Sprintf("      %s\n", s.Before)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	for _, text := range l.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// url returns the canonical URL. It masks secrets if mask is set.
func (l *Location) url(mask bool) string {
	var b strings.Builder
	frag := []Param{{"mode", strings.Join(l.Mode, ",")}}
	switch {
	case l.Scheme != "":
		base, extra := l.declaredURL(mask)
		b.WriteString(base)
		frag = append(frag, extra...)
	case l.Driver == DriverFile || l.Driver == DriverZip:
		b.WriteString(fileURL(l.Path, l.windows))
	case l.Driver == DriverMem:
		b.WriteString("mem:" + strings.ReplaceAll(escape(l.Path, keepFile), "/", "%2F"))
	case l.Driver == DriverS3:
		base, extra := l.s3URL()
		b.WriteString(base)
		frag = append(frag, extra...)
	case l.Driver == DriverHTTP:
		b.WriteString(l.Endpoint + l.Path)
		if l.Query != "" && mask {
			b.WriteString("?" + maskQuery(l.Query))
		} else if l.Query != "" {
			b.WriteString("?" + l.Query)
		}
	default:
		b.WriteString(fileURL(l.Path, l.windows))
		frag = append(frag, Param{keyDriver, l.Driver})
	}
	if l.Separator != "" {
		frag = append(frag, Param{keySeparator, l.Separator})
	}
	writeFragment(&b, append(frag, l.Fragment...), mask)
	return b.String()
}

// writeFragment appends "#k=v&..." for params. It skips an empty mode.
func writeFragment(b *strings.Builder, params []Param, mask bool) {
	sep := byte('#')
	for _, f := range params {
		if f.Key == keyMode && f.Value == "" {
			continue
		}
		b.WriteByte(sep)
		sep = '&'
		b.WriteString(escape(f.Key, keepValue))
		value := f.Value
		if mask {
			value = maskValue(f.Key, value)
		}
		if value != "" {
			b.WriteString("=" + escape(value, keepValue))
		}
	}
}
