package ncurl

import (
	"errors"
	"slices"
	"strings"
)

// siteKind is the kind of a server, determined from its host name.
type siteKind uint8

const (
	siteOther  siteKind = iota // any other server
	siteAmazon                 // Amazon S3
	siteGoogle                 // Google Cloud Storage
	siteWeb                    // an Amazon host without S3 service
)

const (
	amazonSuffix      = ".amazonaws.com"
	amazonSuffixChina = ".amazonaws.com.cn"
	googleHost        = "storage.googleapis.com"
)

// site is the parsed host of an object store.
type site struct {
	kind   siteKind
	srv    server // host name without the bucket
	bucket string // bucket in the host name; empty in path style
	region string // region in the host name
	plain  bool   // an Amazon host to rewrite as s3.REGION.amazonaws.com
}

// errForm is the error for a form of S3 host that is recognized but not supported.
var errForm = errors.New("this form of S3 host is not supported; use s3://BUCKET/KEY")

func isAmazon(host string) bool {
	return strings.HasSuffix(host, amazonSuffix) || strings.HasSuffix(host, amazonSuffixChina)
}

func isGoogle(host string) bool {
	return host == googleHost || strings.HasSuffix(host, "."+googleHost)
}

// amazonHost returns the path-style host of a region.
func amazonHost(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "s3." + region + amazonSuffixChina
	}
	return "s3." + region + amazonSuffix
}

// siteOf parses a host. wanted is set if the URL requests the S3 driver.
//
// Source: netcdf-c libdispatch/ds3util.c, NC_s3urlrebuild. Unlike that code, siteOf
// also handles buckets with dots and virtual-hosted style on other servers.
func siteOf(srv server, wanted bool) (site, error) {
	host := srv.host
	labels := strings.Split(host, ".")
	switch {
	case isAmazon(host):
		return amazonSite(srv, wanted)
	case isGoogle(host):
		s := site{kind: siteGoogle, srv: srv, bucket: strings.TrimSuffix(strings.TrimSuffix(host, googleHost), ".")}
		s.srv.host = googleHost
		return s, nil
	case wanted && labels[0] == "s2" && len(labels) > 1:
		return site{}, errS2(host)
	case !wanted:
		return site{srv: srv}, nil
	}
	return otherSite(srv, labels), nil
}

func errS2(host string) error {
	return errors.New(`the host begins with "s2.", a misprint in old documents; did you mean "s3` + host[2:] + `"?`)
}

// otherSite finds the bucket and the region in a host of the form
// [bucket.]s3[.region].domain. A region must be followed by at least two labels of
// domain, so "s3.example.org" has no region.
func otherSite(srv server, labels []string) site {
	s := site{kind: siteOther, srv: srv}
	for i := len(labels) - 3; i >= 0; i-- {
		if labels[i] != modeS3 {
			continue
		}
		s.bucket = strings.Join(labels[:i], ".")
		s.srv.host = strings.Join(labels[i:], ".")
		if len(labels)-i > 3 {
			s.region = labels[i+1]
		}
		break
	}
	return s
}

// amazonSite parses a host below amazonaws.com.
func amazonSite(srv server, wanted bool) (site, error) {
	suffix := amazonSuffix
	if strings.HasSuffix(srv.host, amazonSuffixChina) {
		suffix = amazonSuffixChina
	}
	labels := strings.Split(strings.TrimSuffix(srv.host, suffix), ".")
	if labels[0] == "s2" {
		return site{}, errS2(srv.host)
	}
	i := len(labels) - 1
	for i >= 0 && labels[i] != modeS3 && !strings.HasPrefix(labels[i], "s3-") {
		i--
	}
	s := site{kind: siteAmazon, srv: srv}
	switch {
	case i < 0 && wanted:
		return s, errors.New("this Amazon host does not serve S3; an S3 host has the form s3.REGION.amazonaws.com")
	case i < 0 || strings.HasPrefix(labels[i], "s3-website"):
		s.kind = siteWeb
		return s, nil
	case len(labels)-i == 3 && labels[i+2] == "vpce":
		s.region = labels[i+1]
		return s, nil // a private endpoint keeps its host name and uses path style
	}
	s.bucket = strings.Join(labels[:i], ".")
	s.srv.host = strings.Join(labels[i:], ".") + suffix
	return s, s.readAmazon(labels[i], labels[i+1:])
}

// readAmazon reads the region from the service label and the labels after it.
func (s *site) readAmazon(service string, rest []string) error {
	s.plain = service == modeS3
	if region, ok := strings.CutPrefix(service, "s3-"); ok && strings.Count(region, "-") >= 2 && len(rest) == 0 {
		rest, s.plain = []string{region}, true // old spelling such as s3-eu-west-1
	} else if ok && service != "s3-fips" {
		return errForm
	}
	if len(rest) == 2 && rest[0] == "dualstack" {
		rest, s.plain = rest[1:], false
	}
	switch {
	case len(rest) == 1:
		s.region = rest[0]
	case len(rest) > 1 || !s.plain:
		return errors.New("the host is not of the form [BUCKET.]s3[.REGION].amazonaws.com")
	}
	return nil
}

// endpointSite parses the value of an endpoint setting. from describes the setting.
func (p *parser) endpointSite(value, from string) (site, error) {
	scheme, authority, ok := strings.Cut(strings.TrimSuffix(value, "/"), "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != schemeHTTP && scheme != schemeHTTPS || strings.ContainsAny(authority, "/?#@") {
		return site{}, p.setting(from, errors.New("an endpoint is http://HOST[:PORT] or https://HOST[:PORT] without a path"))
	}
	srv, err := parseServer(scheme, authority)
	if err != nil {
		return site{}, p.setting(from, err)
	}
	s, err := siteOf(srv, true)
	if err != nil || s.bucket != "" {
		// An endpoint contains no bucket, so its whole host name is the server.
		if labels := strings.Split(srv.host, "."); labels[0] == "s2" && len(labels) > 1 {
			return site{}, p.setting(from, err)
		}
		s = site{kind: siteOther, srv: srv, region: s.region}
	}
	p.step("endpoint", "", srv.String(), from+" sets the server")
	return s, nil
}

// validRegion reports whether text is valid as a region in a host name.
func validRegion(text string) bool {
	return text != "" && len(text) <= 63 && !slices.ContainsFunc([]byte(text), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}
