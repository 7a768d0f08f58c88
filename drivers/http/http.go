package http

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Name is the name of the driver.
const Name = "http"

// Opener opens datasets on web servers. It has no state.
type Opener struct{}

var _ driver.Opener = Opener{}

// New returns the driver.
func New() driver.Opener { return Opener{} }

// options are the keys of OpenSpec.Options.
type options struct {
	Query     string   `json:"query"`
	Origin    string   `json:"origin"`
	User      string   `json:"user"`
	Password  string   `json:"password"`
	Netrc     string   `json:"netrc"`
	Proxy     string   `json:"proxy"`
	CAFile    string   `json:"ca_file"`
	UserAgent string   `json:"user_agent"`
	Connect   duration `json:"connect_timeout"`
	FirstByte duration `json:"first_byte_timeout"`
	Stall     duration `json:"stall_timeout"`
	Redirects int      `json:"max_redirects"`
	MaxSkip   int64    `json:"max_skip"`
	MaxBlind  int64    `json:"max_blind"`
	Anonymous bool     `json:"anonymous"`
	Reach     string   `json:"reach"`
}

// defaults returns the default options.
func defaults() options {
	return options{
		UserAgent: "nczarr", Connect: duration(10 * time.Second), FirstByte: duration(time.Minute),
		Stall: duration(30 * time.Second), Redirects: 10, MaxSkip: 64 << 20, MaxBlind: 1 << 30,
	}
}

// duration is a time.Duration that JSON represents as a string, such as "30s".
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if v <= 0 {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "duration %q is not positive", text)
	}
	*d = duration(v)
	return nil
}

// Describe implements driver.Opener.
func (Opener) Describe() driver.Description {
	return driver.Description{
		Name:    Name,
		Summary: "files below a URL of a web server, read-only",
		Options: []driver.Option{
			{Name: "query", Type: "string", From: driver.FromQuery, Secret: true, Doc: "the raw query sent with every request, without the question mark; a query in the dataset's URL replaces it"},
			{Name: "origin", Type: "string", From: driver.FromOrigin, Doc: "the only server that receives user and password: https://HOST[:PORT], or http on this machine"},
			{Name: "user", Type: "string", From: driver.FromUser, Doc: "user name for basic authentication with origin"},
			{Name: "password", Type: "string", From: driver.FromPassword, Secret: true, Doc: "password for basic authentication with origin"},
			{Name: "netrc", Type: "string", From: driver.FromNetrc, Doc: "netrc file with user names and passwords of servers, readable by its owner only; empty: $NETRC, else .netrc in the home directory"},
			{Name: "proxy", Type: "string", From: driver.FromProxy, Secret: true, Doc: "URL of a proxy for all requests; empty: HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment"},
			{Name: "ca_file", Type: "string", From: driver.FromCAFile, Doc: "certificates to trust instead of the system's"},
			{Name: "user_agent", Type: "string", From: driver.FromUserAgent, Default: "nczarr", Doc: "the User-Agent header"},
			{Name: "connect_timeout", Type: "duration", Default: "10s", Doc: "time limit for opening a connection"},
			{Name: "first_byte_timeout", Type: "duration", Default: "1m0s", Doc: "time limit for the header of a response"},
			{Name: "stall_timeout", Type: "duration", Default: "30s", Doc: "time limit between two bytes of a body"},
			{Name: "max_redirects", Type: "int", Default: "10", Doc: "number of redirects followed per request"},
			{Name: "max_skip", Type: "int", Default: "67108864", Doc: "number of bytes read and discarded to reach a range on a server that ignores ranges"},
			{Name: "max_blind", Type: "int", Default: "1073741824", Doc: "maximum size in bytes of an object for which the server sends no Content-Length"},
			{Name: "anonymous", Type: "bool", Default: "false", Doc: "send no user name and password, and do not read a netrc file"},
			{Name: "reach", Type: "string", Doc: "public: connect to no loopback, link-local or private address; same: connect to no address more local than the first one; empty: all addresses"},
		},
		Grants:   grants(),
		Locality: driver.OnServer, Schemes: []string{"http", "https"}, Servers: true,
	}
}

// Open implements driver.Opener. Endpoint is scheme://host[:port], and Path is the
// percent-encoded path of the dataset. Open sends no request, so a missing dataset
// is detected at the first read. Open returns ncerr.ErrReadOnly for modes other than Read.
func (o Opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.open(ctx, spec)
	if err != nil {
		return nil, ncerr.Wrap("open", spec.Path, err)
	}
	return m, nil
}

func (Opener) open(ctx context.Context, spec driver.OpenSpec) (*Map, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opts := defaults()
	if err := driver.DecodeOptions(spec.Options, &opts); err != nil {
		return nil, err
	}
	switch {
	case spec.Mode.Writable():
		return nil, ncerr.Errorf(ncerr.ErrReadOnly, "", "", "a dataset on a web server can only be read")
	case !web.Reach(opts.Reach).Valid():
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid value %q for reach: must be public, same or empty", opts.Reach)
	case opts.Redirects < 0 || opts.MaxSkip < 0 || opts.MaxBlind < 0:
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "max_redirects, max_skip and max_blind must not be negative")
	}
	base, err := baseURL(spec, opts.Query)
	if err != nil {
		return nil, err
	}
	tr, err := web.New(web.Options{
		Connect: time.Duration(opts.Connect), FirstByte: time.Duration(opts.FirstByte), Stall: time.Duration(opts.Stall),
		Proxy: opts.Proxy, CAFile: opts.CAFile, Reach: web.Reach(opts.Reach),
	})
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "", "", err)
	}
	keys, err := readCredentials(base, opts)
	if err != nil {
		return nil, err
	}
	m := &Map{base: base, o: opts, transport: tr, keys: keys, documents: spec.Documents}
	m.client = &http.Client{Transport: tr, CheckRedirect: m.redirect}
	return m, nil
}

// baseURL returns the URL of the dataset, which ends in a slash.
func baseURL(spec driver.OpenSpec, query string) (*url.URL, error) {
	u, err := url.Parse(spec.Endpoint + "/" + strings.Trim(spec.Path, "/"))
	switch {
	case err != nil: // the message of err would reveal the URL
		return nil, ncerr.Errorf(ncerr.ErrBadURL, "", "", "the endpoint and path do not form a valid URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, ncerr.Errorf(ncerr.ErrBadURL, "", "", "the endpoint must be http://HOST or https://HOST, and the path must be percent-encoded")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath("/")
	}
	u.RawQuery = query
	return u, nil
}

// Remove implements driver.Opener. It always fails.
func (Opener) Remove(_ context.Context, spec driver.OpenSpec) error {
	return ncerr.Errorf(ncerr.ErrReadOnly, "remove", spec.Path, "a dataset on a web server can only be read")
}
