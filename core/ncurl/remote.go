package ncurl

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// remote sets the driver, the server and the path for an s3:, gs3:, http: or https: URL.
func (p *parser) remote(storage string) error {
	scheme := p.in.scheme
	if scheme == schemeS3 || scheme == schemeGS3 {
		host := strings.ToLower(p.in.authority)
		if !isAmazon(host) && !isGoogle(host) {
			return p.bucketURL(storage)
		}
		scheme = schemeHTTPS // the URL contains a host, as in s3://s3.amazonaws.com/bucket/key
	}
	srv, err := parseServer(scheme, p.in.authority)
	if err != nil {
		return p.bad(err)
	}
	site, err := siteOf(srv, storage != "")
	if errors.Is(err, errForm) {
		return p.unsupported(err)
	}
	if err != nil {
		return p.bad(err)
	}
	if storage == "" && (site.kind == siteOther || site.kind == siteWeb || p.in.hasQuery) {
		return p.http(srv, site.kind)
	}
	if p.in.hasQuery {
		return p.bad(errors.New("the URL of a bucket cannot have a query"))
	}
	if storage == modeGS3 && site.kind == siteAmazon {
		return p.bad(errors.New("mode=gs3 selects Google Cloud Storage, but the host is Amazon's"))
	}
	mode, why := storage, "mode contains "+storage
	if mode == "" {
		mode, why = modeS3, "the host is a known object store"
		if site.kind == siteGoogle {
			mode = modeGS3
		}
	}
	p.setStorage(DriverS3, mode, why)
	if value, ok := p.take(keyEndpoint); ok && strings.TrimSuffix(value, "/") != srv.String() {
		return p.bad(errors.New("aws.endpoint conflicts with the host of the URL; use it with s3://bucket/key"))
	}
	return p.bucketOnHost(site)
}

// http sets the driver, the server and the path for a URL of a web server.
func (p *parser) http(srv server, kind siteKind) error {
	name, err := cleanURLPath(p.in.path)
	if err != nil {
		return p.bad(err)
	}
	if err := p.checkQuery(); err != nil {
		return err
	}
	why := "an http or https URL without a storage mode is a web server; mode=s3 selects an object store"
	if kind != siteOther && kind != siteWeb {
		why = "the URL has a query, so it is fetched unchanged and not through the S3 driver"
	}
	p.loc.Endpoint, p.loc.Path, p.loc.Query = srv.String(), name, p.in.query
	p.setStorage(DriverHTTP, "", why)
	p.webSettings()
	return nil
}

// checkQuery rejects a query that cannot be sent unchanged.
func (p *parser) checkQuery() error {
	if strings.ContainsFunc(p.in.query, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"<>`", r) }) {
		return p.bad(errors.New("the query has a character that must be percent-encoded"))
	}
	return nil
}

// webSettings reads the rc settings for a web server. The steps contain only the keys,
// because the values may be secret.
//
// Source: netcdf-c docs/auth.md.
func (p *parser) webSettings() {
	for _, s := range []struct {
		option string
		keys   []string
	}{
		{"netrc", []string{"HTTP.NETRC"}},
		{"proxy", []string{"HTTP.PROXY.SERVER", "HTTP.PROXY_SERVER"}},
		{"ca_file", []string{"HTTP.SSL.CAINFO"}},
		{"user_agent", []string{"HTTP.USERAGENT"}},
	} {
		if value, from := p.rc(s.keys...); value != "" {
			p.loc.Web = append(p.loc.Web, Param{s.option, value})
			p.step("rc", "", "driver option "+s.option, from+" sets this option")
		}
	}
	p.webLogin()
}

// webLogin reads a login from the rc files. It uses only sections for the server of the
// URL, so that no other server receives the login.
func (p *parser) webLogin() {
	var list []Param
	for _, s := range []struct {
		option string
		keys   []string
	}{
		{"user", []string{"HTTP.CREDENTIALS.USERNAME", "HTTP.CREDENTIALS.USER"}},
		{"password", []string{"HTTP.CREDENTIALS.PASSWORD"}},
	} {
		value, from := p.rcOf(p.ownServer, s.keys...)
		if value != "" {
			p.step("rc", "", "driver option "+s.option, from+" sets this option")
		} else if _, from = p.rc(s.keys...); from != "" {
			p.warn(from + " is ignored: it must be in the section of its server, as in [" + p.loc.Endpoint + "], with https or on this machine")
		}
		list = append(list, Param{s.option, value})
	}
	if list[0].Value != "" || list[1].Value != "" {
		p.loc.Web = append(p.loc.Web, append(list, Param{"origin", p.loc.Endpoint})...)
	}
}

// ownServer reports whether an rc section has the scheme, host and port of the URL and
// the connection is safe for a login, that is, uses https or stays on this machine. A
// section without a scheme means https.
func (p *parser) ownServer(section string) bool {
	scheme, rest, ok := strings.Cut(section, "://")
	if !ok {
		scheme, rest = schemeHTTPS, section
	}
	host, _, _ := strings.Cut(rest, "/")
	srv, err := parseServer(strings.ToLower(scheme), host)
	return err == nil && srv.String() == p.loc.Endpoint && (srv.scheme == schemeHTTPS || srv.isLoopback())
}

// cleanURLPath returns the canonical form of a URL path: with a leading and without
// a trailing slash, with dot segments resolved and every segment encoded in the same
// way. An encoded slash stays encoded.
func cleanURLPath(raw string) (string, error) {
	var out []string
	for segment := range strings.SplitSeq(strings.Trim(raw, "/"), "/") {
		s, err := unescape(segment)
		if err != nil {
			return "", err
		}
		switch s {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, escape(s, keepSegment))
		}
	}
	return "/" + strings.Trim(strings.Join(out, "/"), "/"), nil
}

// bucketURL sets the Location for s3://bucket/key and gs3://bucket/key.
func (p *parser) bucketURL(storage string) error {
	p.setStorage(DriverS3, storage, "the scheme "+p.in.scheme+": selects an object store")
	bucket := p.in.authority
	if strings.ContainsAny(bucket, ":[") {
		return p.bad(errors.New("a bucket has no port; write http://HOST:PORT/BUCKET/KEY#mode=s3, " +
			"or s3://BUCKET/KEY#aws.endpoint=http://HOST:PORT"))
	}
	if err := p.setBucket(bucket, p.in.path); err != nil {
		return p.bad(err)
	}
	if err := p.readProfile(); err != nil {
		return err
	}
	site := site{kind: siteAmazon, srv: server{scheme: schemeHTTPS, host: "s3" + amazonSuffix}, plain: true}
	if storage == modeGS3 {
		if _, ok := p.take(keyEndpoint); ok {
			return p.bad(errors.New("gs3 always uses Google's endpoint; use mode=s3 with aws.endpoint"))
		}
		site.kind, site.srv.host = siteGoogle, googleHost
		p.step("endpoint", "", site.srv.String(), "gs3 selects Google Cloud Storage")
		return p.setServer(site)
	}
	value, from := p.endpointSetting()
	if value == "" {
		return p.setServer(site)
	}
	site, err := p.endpointSite(value, from)
	if err != nil {
		return err
	}
	return p.setServer(site)
}

// bucketOnHost sets the Location for an http: or https: URL of an object store.
func (p *parser) bucketOnHost(site site) error {
	bucket, key := site.bucket, p.in.path
	if bucket == "" {
		first, rest, _ := strings.Cut(strings.TrimLeft(key, "/"), "/")
		name, err := unescape(first)
		if err != nil {
			return p.bad(err)
		}
		bucket, key = name, rest
	}
	if err := p.setBucket(bucket, key); err != nil {
		return p.bad(err)
	}
	if err := p.readProfile(); err != nil {
		return err
	}
	return p.setServer(site)
}

// setBucket checks the bucket and the key and sets them. rawKey is percent-encoded.
func (p *parser) setBucket(bucket, rawKey string) error {
	if bucket == "" {
		return errors.New("the URL has no bucket")
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if len(bucket) > 255 || strings.Trim(bucket, letters+"._-") != "" || strings.ContainsAny(bucket[:1], "._-") {
		return errors.New("the bucket name must have at most 255 letters, digits, dots, hyphens and underscores and begin with a letter or digit")
	}
	key, err := unescape(strings.Trim(rawKey, "/"))
	if err != nil {
		return err
	}
	key = strings.Trim(key, "/")
	if err := checkKey(key); err != nil {
		return err
	}
	if err := p.checkNew(bucket + "/" + key); err != nil {
		return err
	}
	p.loc.Bucket, p.loc.Key, p.loc.Path = bucket, key, bucket
	if key != "" {
		p.loc.Path = bucket + "/" + key
	}
	return nil
}

// checkKey rejects keys that drivers do not accept.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || s == "." || s == ".." {
			return errors.New(`the key has an empty, "." or ".." segment`)
		}
	}
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !utf8.ValidString(key) || strings.ContainsFunc(key, control) {
		return errors.New("the key has a control character or is not UTF-8")
	}
	return nil
}

// setServer sets the region and the endpoint of an s3 Location.
func (p *parser) setServer(site site) error {
	region, err := p.region(site)
	if err != nil {
		return err
	}
	p.loc.Region = region
	before := site.srv.String()
	if site.kind == siteAmazon && site.plain {
		site.srv.host = amazonHost(region)
	}
	if site.kind != siteOther && site.srv.scheme == schemeHTTP {
		site.srv.scheme = schemeHTTPS
		if site.srv.port == "443" {
			site.srv.port = ""
		}
	}
	p.loc.Endpoint = site.srv.String()
	if p.loc.Endpoint != before || site.bucket != "" {
		p.step("rewrite", before, p.loc.Endpoint+"/"+p.loc.Path,
			"requests to object stores use https://host/bucket/key (path style), with the region in Amazon's host names")
	}
	return nil
}

// s3URL returns the canonical URL of an s3 Location without the fragment, and the
// fragment keys that the URL needs. The endpoint becomes a fragment key if its host would
// be parsed as bucket.host or as a web server.
func (l *Location) s3URL() (base string, extra []Param) {
	region := l.Region
	base = l.Endpoint + "/" + escape(l.Path, keepPath)
	scheme, host, _ := strings.Cut(l.Endpoint, "://")
	if srv, err := parseServer(scheme, host); err == nil {
		if site, err := siteOf(srv, true); err != nil || site.bucket != "" || site.kind == siteWeb {
			base = "s3://" + escape(l.Path, keepPath)
			extra = append(extra, Param{keyEndpoint, l.Endpoint})
		} else if site.region == region {
			region = ""
		}
	}
	return base, append(extra, l.awsParams(region)...)
}

// isBytes reports whether the modes contain bytes.
func (p *parser) isBytes() bool { return slices.Contains(p.mode, modeBytes) }
