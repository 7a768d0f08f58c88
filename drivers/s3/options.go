package s3

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Limits of the protocol.
// Source: Amazon S3 User Guide, "Multipart upload limits", "Object keys".
const (
	maxKey     = 1024        // largest key, in bytes
	maxObject  = 5 << 40     // largest object, in bytes
	minPart    = 5 << 20     // smallest part except the last, in bytes
	maxPart    = 5 << 30     // largest part, and largest object without parts, in bytes
	maxParts   = 10000       // largest number of parts of an object
	maxBatch   = 1000        // largest number of keys in one batched delete
	partsRound = 1 << 20     // part sizes above the configured one are multiples of this
	anyRegion  = "us-east-1" // region for servers without regions
)

// config holds the decoded options.
type config struct {
	Region      string      `json:"region"`
	Profile     string      `json:"profile"`
	Unsigned    bool        `json:"unsigned"`
	Endpoint    string      `json:"endpoint"`
	Addressing  string      `json:"addressing"`
	Missing     string      `json:"missing"`
	Conditional *bool       `json:"conditional_writes"`
	Checksums   bool        `json:"checksums"`
	Threshold   driver.Size `json:"multipart_threshold"`
	PartSize    driver.Size `json:"part_size"`
	PartsAtOnce int         `json:"parts_at_once"`
	Connections int         `json:"connections"`
	PageSize    int32       `json:"page_size"`
	Reach       string      `json:"reach"`
}

// options describes the keys of config.
func options() []driver.Option {
	return []driver.Option{
		{Name: "endpoint", Type: "string", Doc: "server for URLs without one, such as http://localhost:9000; also the server of s3://bucket/key URLs"},
		{Name: "region", Type: "string", From: driver.FromRegion, Doc: "region used to sign requests if neither the URL nor the AWS configuration specifies one; empty: us-east-1"},
		{Name: "profile", Type: "string", From: driver.FromProfile, Doc: "AWS profile for credentials; empty: the SDK's own order, environment variables first"},
		{Name: "unsigned", Type: "bool", From: driver.FromUnsigned, Default: "false", Doc: "send requests without a signature, for public buckets"},
		{Name: "addressing", Type: "string", Default: "path", Doc: "path: https://host/bucket/key; virtual: https://bucket.host/key"},
		{Name: "missing", Type: "string", Doc: "403: status 403 for a read means that the object does not exist, as in buckets that cannot be listed; empty: status 403 is an error"},
		{Name: "conditional_writes", Type: "bool", Doc: "the server honors If-None-Match and If-Match on writes; false for servers that ignore them; absent: true, but false on storage.googleapis.com"},
		{Name: "checksums", Type: "bool", Default: "true", Doc: "send a CRC32C with each write and verify it when a whole object is read"},
		{Name: "multipart_threshold", Type: "size", Default: "64MiB", Doc: "size above which objects are uploaded in parts; at most 5GiB"},
		{Name: "part_size", Type: "size", Default: "16MiB", Doc: "size of a part, at least 5MiB; larger for objects that would have more than 10000 parts"},
		{Name: "parts_at_once", Type: "int", Default: "4", Doc: "number of parts of one object that are uploaded concurrently"},
		{Name: "connections", Type: "int", Default: "128", Doc: "maximum number of connections to the server"},
		{Name: "page_size", Type: "int", Default: "1000", Doc: "number of entries requested per page of a listing"},
		{Name: "reach", Type: "string", Doc: "public: connect to no loopback, link-local or private address; same: connect to no address more local than the first one; empty: all addresses"},
	}
}

func readConfig(raw []byte) (config, error) {
	c := config{
		Addressing: "path", Checksums: true, Threshold: 64 << 20, PartSize: 16 << 20,
		PartsAtOnce: 4, Connections: 128, PageSize: 1000,
	}
	if err := driver.DecodeOptions(raw, &c); err != nil {
		return c, err
	}
	invalid := func(format string, args ...any) (config, error) {
		return c, ncerr.Errorf(ncerr.ErrInvalid, "read driver options", "", format, args...)
	}
	switch {
	case c.Addressing != "path" && c.Addressing != "virtual":
		return invalid("invalid value %q for addressing: must be path or virtual", c.Addressing)
	case c.Missing != "" && c.Missing != "403":
		return invalid("invalid value %q for missing: must be 403 or empty", c.Missing)
	case !web.Reach(c.Reach).Valid():
		return invalid("invalid value %q for reach: must be public, same or empty", c.Reach)
	case c.Threshold > maxPart:
		return invalid("multipart_threshold is %d bytes; the maximum is 5 GiB", c.Threshold)
	case c.PartSize < minPart || c.PartSize > maxPart:
		return invalid("part_size is %d bytes; it must be from 5 MiB to 5 GiB", c.PartSize)
	case c.PartsAtOnce < 1 || c.Connections < 1:
		return invalid("parts_at_once and connections must be at least 1")
	case c.PageSize < 1 || c.PageSize > 1000:
		return invalid("page_size is %d; it must be from 1 to 1000", c.PageSize)
	}
	return c, nil
}

// place is the location of a store.
type place struct {
	endpoint string // scheme://host[:port]
	bucket   string
	prefix   string // prefix of the keys of its objects: empty, or ends in a slash
}

// readPlace returns the location in a spec, whose Path is bucket[/key].
func readPlace(spec driver.OpenSpec, cfg config) (place, error) {
	bad := func(format string, args ...any) (place, error) {
		return place{}, ncerr.Errorf(ncerr.ErrBadURL, "open", "", format, args...)
	}
	p := place{endpoint: spec.Endpoint}
	if p.endpoint == "" {
		p.endpoint = cfg.Endpoint
	}
	u, err := url.Parse(p.endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return bad("the endpoint must be http://HOST[:PORT] or https://HOST[:PORT]")
	}
	p.endpoint = u.Scheme + "://" + u.Host
	bucket, key, _ := strings.Cut(spec.Path, "/")
	if p.bucket = bucket; bucket == "" {
		return bad("the URL does not contain a bucket")
	}
	if key != "" {
		if !validKey(key) {
			return bad(`the key of the store has an empty, "." or ".." segment, or a control character`)
		}
		p.prefix = key + "/"
	}
	if len(p.prefix) >= maxKey {
		return bad("the key of the store has %d bytes; the maximum in S3 is %d", len(key), maxKey)
	}
	return p, nil
}

// validKey reports whether core/zmap accepts a key.
func validKey(key string) bool {
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return false
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return true
}
