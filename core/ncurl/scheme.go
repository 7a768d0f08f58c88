package ncurl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// DriverScheme is a URL scheme that a driver declares. Its URLs have the form
// SCHEME://AUTHORITY/PATH[?QUERY][#FRAGMENT].
type DriverScheme struct {
	Name   string // lower case; ignored if this package has rules for it (see [HasRules])
	Driver string
	// Servers is set if AUTHORITY is a host with an optional port. It becomes
	// Location.Endpoint, and Location.Path is PATH. Otherwise Location.Path is
	// AUTHORITY/PATH.
	Servers bool
	Query   bool // URLs may have a query
	AWS     bool // region and profile are chosen as for s3
}

// HasRules reports whether this package has inference rules for a scheme. Drivers cannot
// claim such a scheme.
func HasRules(scheme string) bool {
	return slices.Contains(append(schemes(), schemePath, schemeDODS, schemeDAP4), scheme)
}

// readScheme finds the driver that declares the scheme of the URL.
func (p *parser) readScheme() error {
	for i, s := range p.env.Schemes {
		switch {
		case s.Name != p.in.scheme:
		case p.declared == nil:
			p.declared = &p.env.Schemes[i]
		case p.declared.Driver != s.Driver:
			return ncerr.Errorf(ncerr.ErrInvalid, "parse location", maskText(p.text),
				"the drivers %s and %s both declare the scheme %s: remove one of them", p.declared.Driver, s.Driver, s.Name)
		}
	}
	if p.declared != nil {
		return nil
	}
	known := schemeList()
	for _, s := range p.env.Schemes {
		if !HasRules(s.Name) && !slices.Contains(known, s.Name) {
			known = append(known, s.Name)
		}
	}
	return p.bad(errors.New("unknown scheme \"" + p.in.scheme + "\"" + ncerr.DidYouMean(p.in.scheme, known) +
		" (schemes are " + strings.Join(known, ", ") + ")"))
}

// declaredURL sets the driver, the server and the path for a URL whose scheme a driver
// declares.
func (p *parser) declaredURL(storage string) error {
	s := p.declared
	switch {
	case storage != "":
		return p.bad(fmt.Errorf("the scheme %s: conflicts with mode=%s", s.Name, storage))
	case p.isBytes():
		return p.bad(fmt.Errorf("the scheme %s: conflicts with mode=bytes", s.Name))
	}
	key, err := unescape(strings.Trim(p.in.path, "/"))
	if err == nil {
		key = strings.Trim(key, "/")
		err = checkKey(key)
	}
	if err != nil {
		return p.bad(err)
	}
	if err := p.checkQuery(); err != nil {
		return err
	}
	p.loc.Scheme, p.loc.Path, p.loc.Query = s.Name, key, p.in.query
	if s.Servers {
		srv, err := parseServer(s.Name, p.in.authority)
		if err != nil {
			return p.bad(err)
		}
		p.loc.Endpoint = srv.String()
	} else {
		if strings.Trim(strings.ToLower(p.in.authority), "abcdefghijklmnopqrstuvwxyz0123456789._-:") != "" || strings.Trim(p.in.authority, ".") == "" {
			return p.bad(errors.New("the part before the path must have only letters, digits, dots, colons, hyphens and underscores"))
		}
		p.loc.Path = strings.TrimSuffix(p.in.authority+"/"+key, "/")
	}
	p.setStorage(s.Driver, "", "the driver "+s.Driver+" declares the scheme "+s.Name)
	if !s.AWS {
		return nil
	}
	if err := p.readProfile(); err != nil {
		return err
	}
	p.loc.Region, err = p.region(site{kind: siteOther})
	return err
}

// declaredURL returns the canonical URL of a Location whose scheme a driver declares,
// without the fragment, and the fragment keys that the URL needs.
func (l *Location) declaredURL(mask bool) (base string, extra []Param) {
	base = l.Scheme + "://" + escape(l.Path, keepPath)
	if l.Endpoint != "" {
		base = strings.TrimSuffix(l.Endpoint+"/"+escape(l.Path, keepPath), "/")
	}
	if l.Query != "" {
		query := l.Query
		if mask {
			query = maskQuery(query)
		}
		base += "?" + query
	}
	return base, l.awsParams(l.Region)
}

// awsParams returns the fragment keys that select the profile and a region.
func (l *Location) awsParams(region string) (params []Param) {
	switch {
	case l.Unsigned:
		params = append(params, Param{keyProfile, "none"})
	case l.ProfileExplicit:
		params = append(params, Param{keyProfile, l.Profile})
	}
	if region != "" {
		params = append(params, Param{keyRegion, region})
	}
	return params
}
