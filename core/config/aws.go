package config

import (
	"errors"
	"path/filepath"
	"strings"
)

// AWSProfile is what URL inference needs of an AWS profile. It has the fields
// of ncurl.Profile and holds no credential.
type AWSProfile struct {
	Region   string // "region", else "aws_region"
	Endpoint string // "endpoint_url"
}

// AWSFiles names the two AWS files: that of AWS_CONFIG_FILE, else
// ~/.aws/config, and that of AWS_SHARED_CREDENTIALS_FILE, else
// ~/.aws/credentials. NC_TEST_AWS_DIR replaces the home directory.
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

// LoadAWS reads the profiles of AWS files in order; settings of a later file
// override those of an earlier one. A missing file is nothing, so that the
// map may be empty; it is never nil. What cannot be used is skipped and
// reported, without its text, as [ParseAWS] does.
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

// ParseAWS adds the profiles of one file to profiles. Sections are [default],
// [NAME] and [profile NAME]; others, such as [sso-session NAME], are skipped,
// as are indented lines, which belong to a nested setting. "#" and ";" begin a
// comment at the start of a line, and after a space within one. Each problem
// is an *ncerr.Error of kind ErrInvalid (ErrLimit for a file of more than
// 64 KiB) with file:line; since the line may hold a secret, it is not shown.
func ParseAWS(name string, data []byte, profiles map[string]AWSProfile) (problems []error) {
	section, known := "", false
	low := map[string]bool{} // profiles whose region came from aws_region of this file
	eachLine(name, data, &problems, func(line, _ string, indented bool) error {
		switch {
		case line[0] == '#' || line[0] == ';' || indented && known:
			return nil
		case line[0] == '[':
			var err error
			if section, known, err = awsSection(line); known {
				p := profiles[section] // a profile without settings is one, too
				profiles[section] = p
			}
			return err
		case !known:
			return nil
		}
		key, value, ok := strings.Cut(stripComment(line), "=")
		if !ok {
			return errors.New("the line is neither a section nor of the form key = value")
		}
		p := profiles[section]
		p.set(strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), low, section)
		profiles[section] = p
		return nil
	})
	return problems
}

// set stores one setting; low marks sections whose region is only aws_region.
func (p *AWSProfile) set(key, value string, low map[string]bool, section string) {
	switch {
	case value == "":
	case key == "region":
		p.Region, low[section] = value, false
	case key == "aws_region" && (p.Region == "" || low[section]):
		p.Region, low[section] = value, true
	case key == "endpoint_url":
		p.Endpoint = value
	}
}

// awsSection reads a section line; known is false for one that is no profile.
func awsSection(line string) (name string, known bool, err error) {
	name, _, ok := strings.Cut(line[1:], "]")
	if !ok {
		return "", false, errors.New(`the section has no "]"`)
	}
	words := strings.Fields(name)
	switch {
	case len(words) == 1:
		return words[0], true, nil
	case len(words) >= 2 && words[0] == "profile":
		return strings.Trim(strings.Join(words[1:], " "), `"'`), true, nil
	}
	return "", false, nil
}

// stripComment cuts a comment that follows a space.
func stripComment(line string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		line, _, _ = strings.Cut(line, mark)
	}
	return line
}
