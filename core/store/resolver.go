package store

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Access is the access policy of the references in a dataset. The zero value allows objects
// below the directory or prefix that contains the reference file, and nothing else.
type Access struct {
	// Allow lists further places.
	Allow []Prefix
	// AllowLocal permits connections to loopback, link-local and private addresses for places
	// whose host is a name. An address or "localhost" in the URL of a place permits that
	// address.
	AllowLocal bool
}

// Prefix is a place below which references may refer to objects. Requests to it are anonymous
// unless URL or Options contain credentials.
type Prefix struct {
	// URL is the URL or path of a directory or of a prefix of a bucket, as core/ncurl parses
	// it. The key aws.profile in its fragment selects the AWS profile for requests.
	URL string
	// Options are options of the driver, a JSON object. They override all others.
	Options []byte
}

// maxResolved is the number of references whose objects a Resolver remembers.
const maxResolved = 1024

// Resolver finds the objects that the references of a dataset refer to, and opens the stores
// that contain them. A reference is a URL with the scheme file, s3, gs3, gs, gcs, http or
// https, or a path. A relative path starts at the directory of the reference file. A Resolver
// is safe for concurrent use; it implements manifest.Resolver.
//
// A reference only selects an object below a place that the user has named. It selects no
// server, no credentials and no option of a driver.
type Resolver struct {
	root   *area
	file   string  // key of the reference file
	areas  []*area // root first
	own    string  // printable location of root
	mu     sync.Mutex
	places map[string]resolved
}

// area is a place that references may refer to.
type area struct {
	loc     *ncurl.Location
	options *Options

	mu    sync.Mutex
	store *Store // nil until the first use
}

// resolved is the object of a reference.
type resolved struct {
	m   *zmap.Map
	key string
}

// NewResolver returns the Resolver of the references in the file at loc. It opens the store
// that contains the file, with the credentials of the user. env is used to parse the places in
// access. The caller must close the result.
//
// Errors: those of [Open], ncerr.ErrUnsupported if the driver of loc is not file, s3 or http,
// and ncerr.ErrInvalid for an invalid place.
func NewResolver(ctx context.Context, loc *ncurl.Location, env *ncurl.Env, access Access, o *Options) (*Resolver, error) {
	dir := *loc
	dir.Path = path.Dir(loc.Path)
	switch loc.Driver {
	case ncurl.DriverFile, ncurl.DriverHTTP:
	case ncurl.DriverS3:
		if dir.Key = path.Dir(loc.Key); dir.Key == "." {
			dir.Key = ""
		}
	default:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "open", loc.Path, "reference files cannot be read with the driver %s", loc.Driver)
	}
	r := &Resolver{file: path.Base(loc.Path), own: ncurl.Masked(dir.String()), places: make(map[string]resolved)}
	if at := strings.IndexByte(r.own, '#'); at >= 0 {
		r.own = r.own[:at]
	}
	var err error
	if loc.Driver == ncurl.DriverHTTP {
		if r.file, err = url.PathUnescape(r.file); err != nil {
			return nil, ncerr.New(ncerr.ErrBadURL, "open", loc.Path, err)
		}
	}
	if r.root, err = newArea(&dir, o, map[string]any{"reach": "same"}, nil, nil); err != nil {
		return nil, err
	}
	r.areas = []*area{r.root}
	for _, p := range access.Allow {
		a, err := allowedArea(p, env, access.AllowLocal, o)
		if err != nil {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "allow prefix", ncurl.Masked(p.URL), "%w", err)
		}
		r.areas = append(r.areas, a)
	}
	if _, err := r.root.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Root returns the store of the directory that contains the reference file.
func (r *Resolver) Root() *Store { return r.root.store }

// File returns the key of the reference file in Root.
func (r *Resolver) File() string { return r.file }

// Remote reports whether references may refer to high-latency stores.
func (r *Resolver) Remote() bool {
	for _, a := range r.areas {
		if a.loc.Driver != ncurl.DriverFile {
			return true
		}
	}
	return false
}

// Close closes all stores.
func (r *Resolver) Close(ctx context.Context) error {
	var all []error
	for _, a := range r.areas {
		if a.store != nil {
			all = append(all, a.store.Close(ctx))
		}
	}
	return errors.Join(all...)
}

// newArea returns the area at loc. Its driver has the options of o without those named in
// without, and the options in set and more.
func newArea(loc *ncurl.Location, o *Options, set map[string]any, without []string, more []byte) (*area, error) {
	options := make(map[string]any)
	if base := o.DriverOptions[loc.Driver]; len(base) > 0 {
		if err := json.Unmarshal(base, &options); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", loc.Driver, err)
		}
	}
	for _, name := range without {
		delete(options, name)
	}
	if loc.Driver != ncurl.DriverFile {
		for name, value := range set {
			options[name] = value
		}
	}
	if len(more) > 0 {
		if err := json.Unmarshal(more, &options); err != nil {
			return nil, ncerr.New(ncerr.ErrInvalid, "read driver options", loc.Driver, err)
		}
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInternal, "write driver options", loc.Driver, err)
	}
	own := *o
	own.DriverOptions = map[string][]byte{loc.Driver: text}
	return &area{loc: loc, options: &own}, nil
}

// allowedArea returns the area of a place that the user allows.
func allowedArea(p Prefix, env *ncurl.Env, local bool, o *Options) (*area, error) {
	own := ncurl.Env{}
	if env != nil {
		own = *env
	}
	own.Windows = own.Windows || runtime.GOOS == "windows"
	if own.Cwd == "" {
		own.Cwd, _ = os.Getwd() // on error a relative path allows nothing
	}
	own.Create, own.Probe, own.RC = false, nil, nil // rc files contain logins and profiles for servers
	loc, err := ncurl.Parse(google(p.URL), &own)
	if err != nil {
		return nil, err
	}
	// A server of the dataset itself is no exception: the DNS may answer differently for the
	// two, and only the user can tell a private server from such an attack.
	set := map[string]any{"reach": "public"}
	if local || isLocalName(loc.Endpoint) {
		delete(set, "reach")
	}
	switch loc.Driver {
	case ncurl.DriverFile:
		return newArea(loc, o, nil, nil, p.Options)
	case ncurl.DriverS3:
		set["unsigned"] = true // unless the URL selects a profile
		return newArea(loc, o, set, []string{"profile", "endpoint"}, p.Options)
	case ncurl.DriverHTTP:
		set["anonymous"] = true
		return newArea(loc, o, set, []string{"query", "origin", "user", "password", "netrc"}, p.Options)
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the driver %s is not supported; the place must be a directory, a bucket or a web server", loc.Driver)
}

// isLocalName reports whether the host of an endpoint is written as an address or localhost.
func isLocalName(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || u.Hostname() == "localhost"
}

// open returns the store of the area. It opens the store on first use.
func (a *area) open(ctx context.Context) (*Store, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil {
		s, err := Open(ctx, a.loc, driver.Read, a.options)
		if err != nil {
			return nil, err
		}
		a.store = s
	}
	return a.store, nil
}

// Resolve returns the Map and the key of the object that a reference refers to.
//
// Errors: ncerr.ErrPermission for a reference outside all allowed places, ncerr.ErrBadURL for a
// malformed one, ncerr.ErrUnsupported for an unknown scheme, and those of [Open].
func (r *Resolver) Resolve(ctx context.Context, ref string) (*zmap.Map, string, error) {
	r.mu.Lock()
	found, ok := r.places[ref]
	r.mu.Unlock()
	if ok {
		return found.m, found.key, nil
	}
	shown := ncurl.Masked(ref)
	t, err := r.parse(ref)
	if err != nil {
		return nil, "", ncerr.Errorf(ncerr.KindOf(err), "resolve reference", shown, "%w", err)
	}
	a, key := r.find(t)
	if a == nil {
		return nil, "", ncerr.Errorf(ncerr.ErrPermission, "resolve reference", shown,
			"the object is not below %s, which contains the reference file; to allow it, use --allow-prefix=%s (AllowPrefix)", r.own, t.dir())
	}
	if err := zmap.ValidKey(key); err != nil {
		return nil, "", ncerr.Errorf(ncerr.ErrBadURL, "resolve reference", shown, "%w", err)
	}
	s, err := a.open(ctx)
	if err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.places) >= maxResolved {
		clear(r.places)
	}
	r.places[ref] = resolved{s.Map, key}
	return s.Map, key, nil
}

// target is the place that a reference refers to.
type target struct {
	driver   string
	endpoint string // server; empty for a file, and for s3: without a host
	path     string // decoded path with a leading slash; for a bucket /bucket/key
}

// dir returns the URL or path of the directory that contains the target.
func (t target) dir() string {
	dir := path.Dir(t.path)
	switch {
	case t.driver == ncurl.DriverFile:
		return dir
	case t.endpoint == "":
		return "s3:/" + dir
	}
	return t.endpoint + (&url.URL{Path: dir}).EscapedPath()
}

// find returns the area that contains a target, and the key in its store. Among several areas
// the innermost one is used.
func (r *Resolver) find(t target) (best *area, key string) {
	for _, a := range r.areas {
		if rest, ok := a.below(t); ok && (best == nil || len(rest) < len(key)) {
			best, key = a, rest
		}
	}
	return best, key
}

// below returns the path of a target below the area. ok is false if the target is not below
// it.
func (a *area) below(t target) (rest string, ok bool) {
	base := a.loc.Path
	switch a.loc.Driver {
	case ncurl.DriverFile:
		ok = t.driver == ncurl.DriverFile
	case ncurl.DriverS3:
		base = "/" + base
		// A web server and a bucket may have the same endpoint.
		ok = t.driver == ncurl.DriverS3 && t.endpoint == "" || t.driver != ncurl.DriverFile && sameServer(t.endpoint, a.loc.Endpoint)
	default:
		var err error
		base, err = url.PathUnescape(base)
		ok = err == nil && t.driver == ncurl.DriverHTTP && t.endpoint == a.loc.Endpoint
	}
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(t.path, strings.TrimSuffix(base, "/")+"/")
	return rest, ok && rest != ""
}

// sameServer reports whether two endpoints serve the same buckets. All regions of Amazon do.
func sameServer(a, b string) bool {
	const amazon = ".amazonaws.com"
	return a == b || strings.HasSuffix(a, amazon) && strings.HasSuffix(b, amazon)
}

// parse returns the place that a reference refers to. Dot segments are resolved, and
// percent-encoded characters in URLs are decoded once.
func (r *Resolver) parse(ref string) (target, error) {
	bad := func(format string, args ...any) (target, error) {
		return target{}, ncerr.Errorf(ncerr.ErrBadURL, "", "", format, args...)
	}
	if strings.ContainsFunc(ref, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }) {
		return bad("a reference with a backslash or a control character is not supported")
	}
	ref = google(ref)
	scheme, rest, hasScheme := strings.Cut(ref, ":")
	if hasScheme && strings.ContainsAny(scheme, "/") {
		hasScheme = false // the colon is part of a name
	}
	switch scheme = strings.ToLower(scheme); {
	case !hasScheme && strings.HasPrefix(ref, "//"):
		return bad("a path that begins with two slashes is not supported")
	case !hasScheme && strings.HasPrefix(ref, "/"):
		return target{driver: ncurl.DriverFile, path: path.Clean(ref)}, nil
	case !hasScheme:
		return r.relative(ref), nil
	case strings.ContainsAny(ref, "#?"):
		return bad("a reference with a query or a fragment is not supported")
	case scheme != "file" && scheme != "s3" && scheme != "gs3" && scheme != "http" && scheme != "https":
		return target{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "unknown scheme; the schemes of references are file, s3, gs, http and https")
	}
	if strings.Contains(strings.ToLower(rest), "%2f") {
		return bad("a reference with an encoded slash is not supported")
	}
	loc, err := ncurl.Parse(scheme+":"+rest, &ncurl.Env{Windows: runtime.GOOS == "windows"})
	if err != nil {
		return target{}, ncerr.Errorf(ncerr.ErrBadURL, "", "", "%w", err)
	}
	t := target{driver: loc.Driver, endpoint: loc.Endpoint, path: loc.Path}
	switch loc.Driver {
	case ncurl.DriverFile, ncurl.DriverZip: // the name of the object may end in .zip
		t.driver = ncurl.DriverFile
		if !path.IsAbs(loc.Path) && runtime.GOOS != "windows" {
			return bad("the path of a file: URL must be absolute")
		}
	case ncurl.DriverS3:
		if t.path = "/" + loc.Path; scheme == "s3" {
			t.endpoint = ""
		}
	default:
		t.path, err = url.PathUnescape(loc.Path)
	}
	return t, err
}

// google replaces the schemes gs and gcs of fsspec by the scheme of core/ncurl.
func google(text string) string {
	for _, scheme := range []string{"gs://", "gcs://"} {
		if rest, ok := strings.CutPrefix(text, scheme); ok {
			return "gs3://" + rest
		}
	}
	return text
}

// relative returns the target of a path relative to the directory of the reference file.
func (r *Resolver) relative(ref string) target {
	loc := r.root.loc
	t := target{driver: loc.Driver, endpoint: loc.Endpoint, path: loc.Path}
	switch loc.Driver {
	case ncurl.DriverS3:
		t.path = "/" + loc.Path
	case ncurl.DriverHTTP:
		t.path, _ = url.PathUnescape(loc.Path) // core/ncurl has encoded it
	}
	t.path = path.Join(t.path, ref)
	return t
}
