package config

import (
	"errors"
	"path/filepath"
	"strings"
)

// AWSProfile holds the settings of an AWS profile that URL inference uses. It has the
// same fields as ncurl.Profile and contains no credentials.
type AWSProfile struct {
	Region          string // "region", or else "aws_region"
	Endpoint        string // "endpoint_url"
	Services        string // "services": the NAME of a section [services NAME]
	S3Endpoint      string // "endpoint_url" under "s3" in that section
	IgnoreEndpoints bool   // "ignore_configured_endpoint_urls"
}

// AWSFiles returns the names of the two AWS files: $AWS_CONFIG_FILE or else
// ~/.aws/config, and $AWS_SHARED_CREDENTIALS_FILE or else ~/.aws/credentials.
// $NC_TEST_AWS_DIR replaces the home directory.
//
// Source: AWS SDK reference, "Shared config and credentials files".
func AWSFiles(env Env) []string {
	home := env.Home
	if other := env.Vars["NC_TEST_AWS_DIR"]; other != "" {
		home = other
	}
	var out []string
	for _, f := range []struct{ variable, name string }{
		{"AWS_CONFIG_FILE", "config"}, {"AWS_SHARED_CREDENTIALS_FILE", "credentials"},
	} {
		switch value := env.Vars[f.variable]; {
		case value != "":
			out = append(out, value)
		case home != "":
			out = append(out, filepath.Join(home, ".aws", f.name))
		}
	}
	return out
}

// LoadAWS reads the profiles of AWS files in order. Settings in later files override
// settings in earlier files. Missing files are ignored. The map may be empty but is never
// nil. LoadAWS skips lines and files that it cannot use. It reports them in problems,
// without their content, as [ParseAWS] does.
func LoadAWS(files []string, read func(string) ([]byte, error)) (profiles map[string]AWSProfile, problems []error) {
	profiles = map[string]AWSProfile{}
	for _, name := range files {
		data, err := readOptional(name, read)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		problems = append(problems, ParseAWS(name, data, profiles)...)
	}
	return profiles, problems
}

// ParseAWS adds the profiles of one file to profiles. It reads the sections [default],
// [NAME] and [profile NAME], and [services NAME] for the profiles that refer to it. It
// skips other sections, such as [sso-session NAME], and indented lines of profiles,
// which belong to nested settings. "#" and ";" begin a comment at the start of a line
// or after a space. Each problem is an *ncerr.Error with file:line, of kind ErrInvalid,
// or ErrLimit for a file of more than 64 KiB. It does not contain the line, because the
// line may be secret.
//
// Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints".
func ParseAWS(name string, data []byte, profiles map[string]AWSProfile) (problems []error) {
	f := awsFile{profiles: profiles, services: map[string]string{}, weakRegion: map[string]bool{}}
	eachLine(name, data, &problems, func(line, _ string, indented bool) error {
		switch {
		case line[0] == '#' || line[0] == ';':
			return nil
		case line[0] == '[' && (!indented || f.kind == otherSection):
			return f.begin(line)
		}
		return f.line(stripComment(line), indented)
	})
	for name, p := range profiles {
		if endpoint := f.services[p.Services]; endpoint != "" {
			p.S3Endpoint = endpoint
			profiles[name] = p
		}
	}
	return problems
}

// awsFile holds the state of ParseAWS.
type awsFile struct {
	profiles   map[string]AWSProfile
	services   map[string]string // the S3 endpoint of each [services NAME]
	weakRegion map[string]bool   // profiles whose region was set by aws_region in this file
	kind       sectionKind
	section    string
	service    string // the service of the nested settings that follow
}

type sectionKind uint8

const (
	otherSection sectionKind = iota
	profileSection
	servicesSection
)

// begin parses a section header and makes its section current.
func (f *awsFile) begin(line string) error {
	f.section, f.kind, f.service = "", otherSection, ""
	name, _, ok := strings.Cut(line[1:], "]")
	if !ok {
		return errors.New(`the section has no "]"`)
	}
	words := strings.Fields(name)
	name = strings.Trim(strings.Join(words[min(1, len(words)):], " "), `"'`)
	switch {
	case len(words) == 1:
		f.section, f.kind = words[0], profileSection
	case len(words) > 1 && words[0] == "profile":
		f.section, f.kind = name, profileSection
	case len(words) > 1 && words[0] == "services":
		f.section, f.kind = name, servicesSection
	}
	if f.kind == profileSection {
		p := f.profiles[f.section] // the profile exists even without settings
		f.profiles[f.section] = p
	}
	return nil
}

// line reads a line of the current section.
func (f *awsFile) line(line string, indented bool) error {
	if f.kind == otherSection || indented && f.kind == profileSection {
		return nil
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return errors.New("the line is neither a section nor of the form key = value")
	}
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	switch {
	case f.kind == profileSection:
		p := f.profiles[f.section]
		p.set(key, value, f.weakRegion, f.section)
		f.profiles[f.section] = p
	case !indented:
		f.service = key
	case f.service == "s3" && key == "endpoint_url":
		f.services[f.section] = value
	}
	return nil
}

// set stores one setting. weakRegion contains the sections whose region was set by aws_region.
// The key region takes precedence over aws_region.
func (p *AWSProfile) set(key, value string, weakRegion map[string]bool, section string) {
	switch {
	case value == "":
	case key == "region":
		p.Region, weakRegion[section] = value, false
	case key == "aws_region" && (p.Region == "" || weakRegion[section]):
		p.Region, weakRegion[section] = value, true
	case key == "endpoint_url":
		p.Endpoint = value
	case key == "services":
		p.Services = value
	case key == "ignore_configured_endpoint_urls":
		p.IgnoreEndpoints = strings.EqualFold(value, "true")
	}
}

// stripComment removes a comment that follows a space or tab.
func stripComment(line string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		line, _, _ = strings.Cut(line, mark)
	}
	return line
}
