package ncurl

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// The drivers that inference can choose.
const (
	DriverFile = "file" // a directory tree
	DriverZip  = "zip"  // a zip archive
	DriverS3   = "s3"   // a bucket of an S3-compatible server, Google's included
	DriverHTTP = "http" // a web server, read only
	DriverMem  = "mem"  // memory of this process, for tests
)

// Format is what a dataset is read or written as.
type Format string

// The formats.
const (
	// NCZarr writes and honours the NCZarr metadata. A store that has none is
	// read as pure Zarr.
	NCZarr Format = "nczarr"
	// Zarr is pure Zarr: NCZarr's own metadata is neither written nor, but
	// for attribute types, honoured.
	Zarr Format = "zarr"
	// Bytes is one netCDF-3 or HDF5 file read by byte ranges. It is no Zarr:
	// Driver opens the file itself, not a store.
	Bytes Format = "bytes"
)

// Location is where a dataset is and how it is opened. It is a value: nothing
// in it is shared with the Env it came from. Treat it as read-only; it is then
// safe for concurrent use.
type Location struct {
	// Driver is the storage driver's name: one of the Driver constants, or the
	// name that the fragment key "driver" gives for one that a plugin brings.
	Driver string `json:"driver"`
	// Path is the place in the driver's own terms. file, zip: a clean path
	// with forward slashes, absolute unless Env.Cwd was empty. s3:
	// bucket[/key]. http: the percent-encoded path, with its leading slash
	// and no trailing one. mem: the name.
	Path string `json:"path"`
	// Endpoint is the server of s3 and http as scheme://host[:port], without
	// a default port; empty for the others. An s3 endpoint names no bucket:
	// it is for path-style requests.
	Endpoint string `json:"endpoint,omitempty"`
	// Bucket and Key are the parts of an s3 Path; Key, the prefix below which
	// the dataset lies, may be empty and has no slash at either end.
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key,omitempty"`
	// Query is the raw query of an http URL, to be repeated in every request;
	// it may hold secrets, see [Location.Redacted].
	Query string `json:"query,omitempty"`
	// Web holds what rc files set for an http Location, as options of that
	// driver: user, password, netrc, proxy, ca_file, user_agent. It may hold
	// secrets and is never printed.
	Web []Param `json:"-"`

	// Format is what to read or write; NCZarr unless a mode says otherwise.
	Format Format `json:"format"`
	// FormatGiven says that a mode named the format; when false the metadata
	// found on opening decide, and a copy may keep its source's format.
	FormatGiven bool `json:"format_given"`
	// Xarray is false after noxarray: _ARRAY_DIMENSIONS is then neither read
	// nor written.
	Xarray bool `json:"xarray"`
	// Version is the version of Zarr that the URL asks for, or 0: 2 for the Zarr v2
	// half of a store that has documents of both versions, 3 for Zarr v3.
	Version int `json:"zarr_format,omitempty"`
	// Consolidated asks for consolidated metadata: used on reading, written
	// on creation.
	Consolidated bool `json:"consolidated"`
	// Separator is the dimension separator for new arrays, "." or "/"; empty
	// leaves it to the writer's default.
	Separator string `json:"dimension_separator,omitempty"`

	// Region is the S3 region; empty when nothing names one (never on an
	// Amazon host).
	Region string `json:"region,omitempty"`
	// Profile is the AWS profile whose settings were used; empty when there
	// is none or Unsigned is set.
	Profile string `json:"profile,omitempty"`
	// ProfileExplicit says that the URL or an rc file named the profile, so
	// that credentials must come from it. Otherwise they come from the AWS
	// chain: environment variables first, then the profile.
	ProfileExplicit bool `json:"profile_explicit,omitempty"`
	// Unsigned asks for anonymous requests (profile "none" or "no").
	Unsigned bool `json:"unsigned,omitempty"`

	// Mode is the final mode list: in the order given, then what was inferred,
	// then the storage mode that was chosen.
	Mode []string `json:"mode"`
	// Fragment holds the keys that inference does not use itself, in order:
	// "log" and "show", other aws.* keys, and unknown ones.
	Fragment []Param `json:"fragment,omitempty"`
	// Warnings has one line for each thing that was accepted but is probably
	// not what was meant, such as an unknown key. No secret is in it.
	Warnings []string `json:"warnings,omitempty"`
	// Steps tells how the result came about, in order. No secret is in it.
	Steps []Step `json:"steps,omitempty"`
	// Display is the canonical URL with secrets masked, for messages.
	Display string `json:"display"`

	windows bool // Path is one of that system
}

// Param is a key of the fragment, with its value decoded.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"` // empty: the key stands alone
}

// Step is one decision of the inference.
type Step struct {
	Rule   string `json:"rule"`             // short name of the rule, such as "macro"
	Before string `json:"before,omitempty"` // what the rule was applied to
	After  string `json:"after,omitempty"`  // what it made of it
	Why    string `json:"why"`              // the reason, in plain words
}

// String gives the canonical URL. Parsed in the same Env it gives an equal
// Location (rc sections for one host aside: they may match the canonical host
// and not the host as it was typed). It names storage, endpoint and region,
// so that nothing is probed again. It may hold a secret if the parsed text did: show Display instead.
func (l *Location) String() string { return l.url(false) }

// HasMode reports whether the final mode list has mode, which is lower case.
func (l *Location) HasMode(mode string) bool { return slices.Contains(l.Mode, mode) }

// Param gives the value of the fragment key that inference left over, compared
// without regard to case, and whether it is there.
func (l *Location) Param(key string) (string, bool) {
	for _, f := range l.Fragment {
		if strings.EqualFold(f.Key, key) {
			return f.Value, true
		}
	}
	return "", false
}

// Equal reports whether two Locations open the same dataset in the same way.
// Steps and Warnings, which tell how each was reached, are not compared.
func (l *Location) Equal(other *Location) bool {
	if l == nil || other == nil {
		return l == other
	}
	a, b := *l, *other
	return l.url(false) == other.url(false) && a.Driver == b.Driver && a.Path == b.Path &&
		a.Endpoint == b.Endpoint && a.Bucket == b.Bucket && a.Key == b.Key && a.Query == b.Query &&
		a.Format == b.Format && a.FormatGiven == b.FormatGiven && a.Xarray == b.Xarray && a.Version == b.Version &&
		a.Consolidated == b.Consolidated && a.Separator == b.Separator && a.Region == b.Region &&
		a.Profile == b.Profile && a.ProfileExplicit == b.ProfileExplicit && a.Unsigned == b.Unsigned &&
		a.Display == b.Display && slices.Equal(a.Mode, b.Mode) && slices.Equal(a.Fragment, b.Fragment) && slices.Equal(a.Web, b.Web)
}

// Redacted gives a copy whose Query and Fragment have their secrets masked,
// fit for printing as JSON. The copy does not open the dataset any more.
func (l *Location) Redacted() *Location {
	c := *l
	c.Query = maskQuery(l.Query)
	c.Fragment = slices.Clone(l.Fragment)
	for i, f := range c.Fragment {
		c.Fragment[i].Value = maskValue(f.Key, f.Value)
	}
	return &c
}

// Explain writes Steps and Warnings as text, a few lines for each. It returns
// the first error of w.
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

// url builds the canonical URL, with secrets masked when asked.
func (l *Location) url(mask bool) string {
	var b strings.Builder
	frag := []Param{{"mode", strings.Join(l.Mode, ",")}}
	switch l.Driver {
	case DriverFile, DriverZip:
		b.WriteString(fileURL(l.Path, l.windows))
	case DriverMem:
		b.WriteString("mem:" + strings.ReplaceAll(escape(l.Path, keepFile), "/", "%2F"))
	case DriverS3:
		base, extra := l.s3URL()
		b.WriteString(base)
		frag = append(frag, extra...)
	case DriverHTTP:
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

// writeFragment appends "#k=v&..." for the params that have something to say.
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
