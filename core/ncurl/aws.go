package ncurl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// defaultRegion is the region of Amazon hosts if no setting selects one.
const defaultRegion = "us-east-1"

// setting returns an error about a setting. The kind is ErrBadURL if the setting is in
// the parsed location and ErrInvalid otherwise. The error does not show the value, which
// may be secret.
func (p *parser) setting(from string, cause error) error {
	kind := ncerr.ErrInvalid
	if strings.HasPrefix(from, "the fragment") {
		kind = ncerr.ErrBadURL
	}
	return ncerr.New(kind, "parse location", maskText(p.text), fmt.Errorf("%s: %w", from, cause))
}

// rc returns the value of the rc entry whose key is in keys and whose section best
// matches this location, and a description of the entry. The longest matching section has
// precedence. If several have the same length, the last one has precedence.
func (p *parser) rc(keys ...string) (value, from string) {
	return p.rcOf(func(string) bool { return true }, keys...)
}

// rcOf is like rc, but uses only entries with a section for which may returns true.
func (p *parser) rcOf(may func(section string) bool, keys ...string) (value, from string) {
	best := -1
	for _, e := range p.env.RC {
		if !may(e.Host) {
			continue
		}
		named := slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, e.Key) })
		if n := p.matchSection(e.Host); named && n >= best {
			best, value = n, e.Value
			from = "the rc key " + e.Key
			if e.Source != "" {
				from += " (" + e.Source + ")"
			}
		}
	}
	return value, from
}

// matchSection returns the length of an rc section host[:port][/path] that matches
// this location, 0 for the empty section, and -2 if the section does not match.
func (p *parser) matchSection(section string) int {
	if section == "" {
		return 0
	}
	if _, rest, ok := strings.Cut(section, "://"); ok {
		section = rest
	}
	section = strings.TrimRight(section, "/")
	host, prefix, hasPath := strings.Cut(section, "/")
	authority := strings.ToLower(p.in.authority)
	host = strings.ToLower(host)
	if bare, _, ok := strings.Cut(authority, ":"); authority != host && (!ok || bare != host) || host == "" {
		return -2
	}
	name := strings.Trim(p.in.path, "/")
	if hasPath && name != prefix && !strings.HasPrefix(name, prefix+"/") {
		return -2
	}
	return len(section)
}

// readProfile chooses the AWS profile. The order of precedence is the fragment key
// aws.profile, the rc key AWS.PROFILE, the variable AWS_PROFILE if that profile exists,
// and the profile "default" if it exists.
func (p *parser) readProfile() error {
	name, from := "", ""
	if value, ok := p.take(keyProfile); ok {
		name, from = value, "the fragment key "+keyProfile
		if name == "" {
			return p.setting(from, errors.New("the key needs a value"))
		}
	} else {
		name, from = p.rc("AWS.PROFILE")
	}
	if name != "" {
		return p.setProfile(name, from, true)
	}
	if name = p.env.Vars[varProfile]; name != "" {
		if _, ok := p.env.Profiles[name]; ok || p.env.Profiles == nil || isUnsigned(name) {
			return p.setProfile(name, "the variable "+varProfile, false)
		}
		p.warn(fmt.Sprintf("%s is ignored: the profile %q does not exist", varProfile, name))
	}
	if _, ok := p.env.Profiles["default"]; ok {
		return p.setProfile("default", "the default", false)
	}
	p.step("profile", "", "none chosen", `no setting selects a profile, and the profile "default" does not exist; credentials come from the default chain of the AWS SDK`)
	return nil
}

func isUnsigned(profile string) bool {
	return strings.EqualFold(profile, "none") || strings.EqualFold(profile, "no")
}

func (p *parser) setProfile(name, from string, explicit bool) error {
	if isUnsigned(name) {
		p.loc.Unsigned = true
		p.step("profile", "", "unsigned", from+` is "`+name+`": requests are anonymous`)
		return nil
	}
	if _, ok := p.env.Profiles[name]; !ok && p.env.Profiles != nil {
		return p.setting(from, fmt.Errorf("the AWS profile %q does not exist%s",
			name, ncerr.DidYouMean(name, slices.Sorted(maps.Keys(p.env.Profiles)))))
	}
	p.loc.Profile, p.loc.ProfileExplicit = name, explicit
	p.step("profile", "", name, from+" sets the profile")
	return nil
}

// endpointSetting returns the endpoint for an s3: URL, or "" for Amazon's endpoint,
// and a description of the setting.
func (p *parser) endpointSetting() (value, from string) {
	if value, ok := p.take(keyEndpoint); ok {
		return value, "the fragment key " + keyEndpoint
	}
	if value, from = p.rc("AWS.ENDPOINT", "AWS.ENDPOINT_URL"); value != "" {
		return value, from
	}
	if p.env.S3Endpoint != "" {
		return p.env.S3Endpoint, "the configured endpoint"
	}
	if value, from = p.awsEndpoint(); value == "" {
		return "", ""
	}
	switch ignore := p.env.Vars[varIgnoreEndpoints]; {
	case strings.EqualFold(ignore, "true"):
		p.step("endpoint", "", "", "the variable "+varIgnoreEndpoints+" disables "+from)
		return "", ""
	case ignore == "" && p.env.Profiles[p.loc.Profile].IgnoreEndpoints:
		p.step("endpoint", "", "", `ignore_configured_endpoint_urls of the profile "`+p.loc.Profile+`" disables `+from)
		return "", ""
	}
	return value, from
}

// awsEndpoint returns the endpoint from the AWS settings and a description of the setting.
// The order of precedence is the same as in the AWS SDK: the variables, the services
// section of the profile, the profile itself.
//
// Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints".
func (p *parser) awsEndpoint() (value, from string) {
	for _, name := range []string{varEndpointS3, varEndpoint} {
		if value = p.env.Vars[name]; value != "" {
			return value, "the variable " + name
		}
	}
	profile := p.env.Profiles[p.loc.Profile]
	if profile.S3Endpoint != "" {
		return profile.S3Endpoint, fmt.Sprintf("endpoint_url of s3 in the section %q, services of the profile %q,", profile.Services, p.loc.Profile)
	}
	if profile.Endpoint != "" {
		return profile.Endpoint, `endpoint_url of the profile "` + p.loc.Profile + `"`
	}
	return "", ""
}

// region chooses the region. The order of precedence is the host, the fragment key
// aws.region, the profile, the rc key AWS.REGION, the variables AWS_REGION and
// AWS_DEFAULT_REGION, and us-east-1 on Amazon hosts. On hosts other than Amazon's and
// Google's, aws.region precedes the host.
func (p *parser) region(s site) (string, error) {
	given, inURL := p.take(keyRegion)
	if inURL && given == "" {
		return "", p.setting("the fragment key "+keyRegion, errors.New("the key needs a value"))
	}
	rcValue, rcFrom := p.rc("AWS.REGION")
	if s.kind == siteOther && given != "" {
		s.region = "" // on other hosts the label after "s3." might not be a region
	}
	choices := []struct{ value, from string }{
		{s.region, "the host name"},
		{given, "the fragment key " + keyRegion},
		{p.env.Profiles[p.loc.Profile].Region, `the profile "` + p.loc.Profile + `"`},
		{rcValue, rcFrom},
		{p.env.Vars[varRegion], "the variable " + varRegion},
		{p.env.Vars[varDefaultRegion], "the variable " + varDefaultRegion},
	}
	for _, c := range choices {
		if c.value == "" {
			continue
		}
		if !validRegion(c.value) {
			return "", p.setting(c.from, errors.New("a region has only lower-case letters, digits, hyphens and underscores"))
		}
		if given != "" && given != c.value {
			p.warn(fmt.Sprintf("%s=%s is ignored: the host contains the region %s", keyRegion, given, c.value))
		}
		p.step("region", "", c.value, c.from+" sets the region")
		return c.value, nil
	}
	if s.kind != siteAmazon {
		p.step("region", "", "", "no setting selects a region; the driver chooses one that the server accepts")
		return "", nil
	}
	p.step("region", "", defaultRegion, "no setting selects a region; this is Amazon's default")
	return defaultRegion, nil
}
